"""Routes of applications: files of any size, and jobs in the transaction that they were given."""

from __future__ import annotations

import hashlib
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Request

import posthouse
from posthouse.server import Access, Permission, allow, create_app, file_body
from posthouse.settings import Settings
from support.server import key_for

router = APIRouter()
jobs = posthouse.App()
MAX_BYTES = 5_000_000


@jobs.job("shop.bake")
async def bake(loaves: int) -> None: ...


Writer = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]


@router.put("/shop/picture")
async def picture(request: Request, access: Writer) -> str:
    digest = hashlib.sha256()
    async for piece in file_body(request, MAX_BYTES):
        digest.update(piece)
    return digest.hexdigest()


@router.post("/shop/order")
async def order(access: Writer, loaves: int) -> str:
    async with access.with_default_tenant().transaction() as db:
        handle = await bake.enqueue(connection=db, loaves=loaves)
        if loaves < 1:
            raise posthouse.PosthouseError("nothing to bake")
    return str(handle.id)


@pytest.fixture
async def shop(database):
    api = create_app(Settings(database_url=database), [router])
    headers = {"Authorization": f"Bearer {await key_for(database, 'tenant-admin', 'acme')}"}
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(api), base_url="http://shop", headers=headers
        ) as client,
    ):
        yield client
    await jobs.close()


async def test_a_route_takes_files_of_the_size_that_it_says(shop):
    data = b"x" * MAX_BYTES
    pieces = [data[start : start + 1_000_000] for start in range(0, MAX_BYTES, 1_000_000)]

    async def slowly():
        for piece in pieces:
            yield piece

    for content in (data, slowly()):
        answer = await shop.put("/shop/picture", content=content)
        assert answer.json() == hashlib.sha256(data).hexdigest()
    for content in (data + b"x", (piece async for piece in _more(pieces))):
        answer = await shop.put("/shop/picture", content=content)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def _more(pieces):
    for piece in [*pieces, b"x"]:
        yield piece


async def test_a_route_enqueues_for_the_tenant_of_its_transaction_or_not_at_all(shop, db):
    made = await shop.post("/shop/order?loaves=3")
    assert made.status_code == 200, made.text
    assert (await shop.post("/shop/order?loaves=0")).status_code >= 400
    rows = db.execute("select id::text, tenant_id, payload from posthouse.jobs").fetchall()
    assert rows == [(made.json(), "acme", {"loaves": 3})]
