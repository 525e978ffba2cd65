"""Files that routes of applications send: whole, by range, and from folders and storages alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Request, Response

from posthouse.blobs import Storage
from posthouse.server import Access, Permission, allow, create_app, file_route, local_file, stored_file
from posthouse.settings import Settings
from support.server import key_for

CONTENT = bytes(range(256)) * 40
SIZE = len(CONTENT)
router = APIRouter()
Reader = Annotated[Access, allow(Permission.JOBS_READ)]
roots: dict[str, Path] = {}


@file_route(router, "/film/{path:path}")
async def film(path: str, request: Request, access: Reader, save: str | None = None) -> Response:
    if path.startswith("stored/"):
        return await stored_file(
            request,
            Storage(roots["folder"].as_uri()),
            path.removeprefix("stored/"),
            "video/mp4",
            attachment=save,
        )
    return await local_file(
        request, roots["folder"] / "films" / Path(path).name, "video/mp4", attachment=save
    )


@pytest.fixture
async def video_server(database, tmp_path):
    api = create_app(Settings(database_url=database), [router])
    roots["folder"] = tmp_path
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "a.mp4").write_bytes(CONTENT)
    (tmp_path / "films" / "empty.mp4").touch()
    headers = {"Authorization": f"Bearer {await key_for(database, 'tenant-viewer', 'acme')}"}
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(api), base_url="http://cinema", headers=headers
        ) as client,
    ):
        yield client


@pytest.fixture(params=["/film/stored/films/", "/film/local/"])
def at(request):
    return request.param


async def test_a_file_is_sent_as_a_whole(video_server, at):
    answer = await video_server.get(f"{at}a.mp4")
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-type"] == "video/mp4"
    assert answer.headers["content-length"] == str(SIZE)


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        ("bytes=0-", 0, SIZE),
        ("bytes=9000-999999999", 9000, SIZE),
        ("bytes=-10", SIZE - 10, SIZE),
        ("bytes=-999999999", 0, SIZE),
    ],
)
async def test_a_range_is_sent(video_server, at, asked, start, end):
    for method in ("GET", "HEAD"):
        answer = await video_server.request(method, f"{at}a.mp4", headers={"Range": asked})
        assert answer.status_code == 206
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{SIZE}"
        assert answer.headers["content-length"] == str(end - start)
        assert answer.content == (CONTENT[start:end] if method == "GET" else b"")


@pytest.mark.parametrize("asked", [f"bytes={SIZE}-", "bytes=7-3", "bytes=-0"])
async def test_a_range_that_does_not_exist_is_refused_with_the_size(video_server, at, asked):
    answer = await video_server.get(f"{at}a.mp4", headers={"Range": asked})
    assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{SIZE}")


async def test_other_range_headers_are_ignored(video_server, at):
    for asked in ("bytes=0-1,4-5", "pages=1-2"):
        answer = await video_server.get(f"{at}a.mp4", headers={"Range": asked})
        assert (answer.status_code, answer.content) == (200, CONTENT)


async def test_head_states_the_size(video_server, at):
    answer = await video_server.head(f"{at}a.mp4")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, str(SIZE), b"")


async def test_an_empty_file_is_sent(video_server, at):
    answer = await video_server.get(f"{at}empty.mp4")
    assert (answer.status_code, answer.content) == (200, b"")


async def test_a_browser_that_has_the_file_gets_no_second_copy(video_server, at):
    etag = (await video_server.get(f"{at}a.mp4")).headers["etag"]
    answer = await video_server.get(f"{at}a.mp4", headers={"If-None-Match": etag})
    assert (answer.status_code, answer.content) == (304, b"")


async def test_a_download_of_a_replaced_file_starts_again(video_server, at):
    etag = (await video_server.get(f"{at}a.mp4")).headers["etag"]
    part = {"Range": "bytes=10-"}
    assert (await video_server.get(f"{at}a.mp4", headers={**part, "If-Range": etag})).status_code == 206
    answer = await video_server.get(f"{at}a.mp4", headers={**part, "If-Range": '"of an older file"'})
    assert (answer.status_code, answer.content) == (200, CONTENT)


async def test_an_attachment_is_saved_under_its_name(video_server, at):
    answer = await video_server.get(f"{at}a.mp4", params={"save": "my film/1.mp4"})
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''my%20film%2F1.mp4"


@pytest.mark.parametrize("name", ["missing.mp4", "%2e%2e/films/../../outside"])
async def test_a_missing_file_is_reported_without_its_place(video_server, at, name, tmp_path):
    answer = await video_server.get(f"{at}{name}")
    assert answer.status_code == 404
    assert str(tmp_path) not in answer.text
