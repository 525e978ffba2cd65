"""Signed links: access to one subject of one tenant until a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Request

from posthouse.errors import Forbidden
from posthouse.server import Access, Permission, allow, allow_linked, create_app, signed_link
from posthouse.server.http.links import NEVER, expiry, sign, verify
from support.server import key_for

router = APIRouter()
SECRET = b"s" * 32


@router.post("/cinema/{film}/link")
async def link(
    film: str, seconds: int, request: Request, access: Annotated[Access, allow(Permission.JOBS_READ)]
) -> str:
    tenant = access.principal.tenant or "default"
    return await signed_link(request, f"film/{film}", tenant=tenant, life=timedelta(seconds=seconds))


@router.get("/cinema/{link}/{film}/{path:path}")  # noqa: FAST003 - allow_linked reads the link
async def watch(
    film: str, path: str, access: Annotated[Access, allow_linked(Permission.JOBS_READ, "film/{film}")]
) -> str:
    return f"{access.tenant}/{film}/{path}"


@pytest.fixture
async def video_server(database, settings):
    api = create_app(replace(settings, database_url=database), [router])
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://cinema") as client,
    ):
        key = await key_for(database, "tenant-viewer", "acme")
        yield client, {"Authorization": f"Bearer {key}"}


async def test_a_link_opens_its_film_and_no_other(video_server):
    client, key = video_server
    link = (await client.post("/cinema/7/link?seconds=60", headers=key)).json()
    assert (await client.get(f"/cinema/{link}/7/segment_1.ts")).json() == "acme/7/segment_1.ts"
    assert (await client.get(f"/cinema/{link}/8/segment_1.ts")).status_code == 403
    assert (await client.get(f"/cinema/{link[:-2]}xx/7/a")).status_code == 403


async def test_all_servers_of_an_installation_accept_a_link(video_server, database, settings):
    client, key = video_server
    link = (await client.post("/cinema/7/link?seconds=60", headers=key)).json()
    other = create_app(replace(settings, database_url=database), [router])
    async with (
        other.router.lifespan_context(other),
        httpx.AsyncClient(transport=httpx.ASGITransport(other), base_url="http://cinema") as client,
    ):
        assert (await client.get(f"/cinema/{link}/7/a")).json() == "acme/7/a"


async def test_an_expired_link_is_refused(video_server):
    client, key = video_server
    link = (await client.post("/cinema/7/link?seconds=0", headers=key)).json()
    answer = await client.get(f"/cinema/{link}/7/a")
    assert (answer.status_code, "expired" in answer.json()["detail"]) == (403, True)


async def test_without_a_link_the_session_or_a_key_counts(video_server):
    client, key = video_server
    assert (await client.get("/cinema/session/7/a")).status_code == 401
    assert (await client.get("/cinema/session/7/a", headers=key)).json() == "acme/7/a"
    credential = key["Authorization"].removeprefix("Bearer ")
    await client.post("/api/v1/session", json={"credential": credential})
    assert (await client.get("/cinema/session/7/a")).json() == "acme/7/a"


@pytest.mark.parametrize("link", ["", "x", "..", "1.2.3", "9e9.YQ.x", "99999999999.YQ.x"])
def test_nonsense_is_refused(link):
    with pytest.raises(Forbidden):
        verify(SECRET, link, "film/7", 0)


def test_neither_the_tenant_nor_the_time_nor_the_secret_can_be_changed():
    link = sign(SECRET, "film/7", "acme", 100)
    assert verify(SECRET, link, "film/7", 99) == "acme"
    _, tenant, signature = link.split(".")
    other = sign(SECRET, "film/7", "other", 100).split(".")[1]
    for changed in (
        f"200.{tenant}.{signature}",
        f"100.{other}.{signature}",
        sign(b"x" * 32, "film/7", "acme", 100),
    ):
        with pytest.raises(Forbidden, match="changed"):
            verify(SECRET, changed, "film/7", 99)


def test_a_link_without_a_life_does_not_expire():
    assert verify(SECRET, sign(SECRET, "film/7", "acme", NEVER), "film/7", 2**40) == "acme"


def test_links_of_the_same_tenth_of_their_life_are_equal_and_live_long_enough():
    hour = timedelta(hours=1)
    assert expiry(7201.5, hour) == expiry(7560, hour) == 11160
    assert expiry(7561, hour) == 11520
    assert expiry(100, timedelta(seconds=5)) == 105
