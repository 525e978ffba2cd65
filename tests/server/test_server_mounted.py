"""The API mounted in another application."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from posthouse.server import create_app
from posthouse.settings import Settings
from support.databases import define
from support.server import key_for


def in_fastapi(jobs, lifespan):
    app = FastAPI(lifespan=lifespan)
    app.mount("/posthouse", jobs)
    return app


def in_starlette(jobs, lifespan):
    return Starlette(routes=[Mount("/posthouse", jobs)], lifespan=lifespan)


@pytest.mark.parametrize("mounted", [in_starlette, pytest.param(in_fastapi, marks=pytest.mark.soak)])
async def test_it_works_below_a_path_of_another_application(database, mounted):
    define(database, "sync")
    jobs = create_app(Settings(database_url=database))

    @asynccontextmanager
    async def lifespan(_):
        async with jobs.router.lifespan_context(jobs):
            yield

    app = mounted(jobs, lifespan)
    headers = {"Authorization": f"Bearer {await key_for(database, 'tenant-admin', 'acme')}"}
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://site/posthouse/api/v1", headers=headers
        ) as client:
            made = await client.post("/jobs", json={"definition_key": "sync"})
            assert made.status_code == 201, made.text
            found = (await client.get("/jobs")).json()["items"]
            assert [item["id"] for item in found] == [made.json()["id"]]
            assert (await client.get("/nothing")).json()["code"] == "not_found"
            assert "/api/v1/jobs" in (await client.get("/openapi.json")).json()["paths"]
