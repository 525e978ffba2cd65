"""Files of jobs: kept by either kind of worker, fetched by jobs and tenants, gone with their job."""

from __future__ import annotations

import hashlib
import os
from uuid import uuid4

import httpx
import psycopg
import pytest
import pytest_asyncio
from psycopg.types.json import Jsonb

from posthouse import testing
from posthouse.blobs import open_store
from posthouse.client.client import Handle
from posthouse.errors import JobNotFound
from posthouse.server.artifacts import Sweeper, Uploads
from posthouse.storage.connections import ReconnectingConnection, tenant_transaction
from support.remote import RemoteServer
from support.workers import expire_lease_and_rescue

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote_server(server, tmp_path_factory):
    with testing.database(server) as database:
        folder = tmp_path_factory.mktemp("artifacts")
        async with RemoteServer.over(database, folder, max_artifact_bytes=4_000_000) as remote_server:
            yield remote_server


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["direct", "remote"])
async def worker_site(remote_server, request):
    async with remote_server.working(request.param, processes=True, process_slots=1, queues=[request.param]):
        remote_server.way = request.param
        yield remote_server


class Holder:
    """Holds a running job of a tenant, with a few HTTP calls."""

    @classmethod
    async def of(cls, remote_server, tenant="acme"):
        self = cls()
        self.remote_server, queue = remote_server, f"q-{uuid4().hex}"
        self.http = remote_server.http(await remote_server.key())
        worker = {"worker_id": str(uuid4()), "queues": [queue]}
        assert (await self.http.post("register", json=worker)).status_code == 201
        self.id = await remote_server.enqueue("keeping", {}, queue=queue, tenant=tenant)
        asked = {**worker, "kinds": ["keeping"], "lease_seconds": 600}
        self.token = (await self.http.post("jobs/claim", json=asked)).json()["token"]
        return self

    async def ask(self, method, name, data=b"", *, of=None, sha256=None, **headers):
        whole = sha256 or hashlib.sha256(data).hexdigest()
        sent = {"X-Lease-Token": self.token, "X-Content-SHA256": whole, **headers}
        query = {} if of is None else {"of": str(of)}
        return await self.http.request(
            method, f"jobs/{self.id}/artifacts/{name}", content=data, headers=sent, params=query
        )


async def test_a_handler_keeps_files_bytes_and_folders_and_another_fetches_them(worker_site, tmp_path):
    folder = tmp_path / "hls"
    (folder / "720p").mkdir(parents=True)
    (folder / "master.m3u8").write_text("#EXTM3U")
    (folder / "720p" / "0.ts").write_bytes(os.urandom(300_000))
    kept = await worker_site.run("keeping", {"folder": str(folder)}, tenant="acme", queue=worker_site.way)
    assert kept["status"] == "succeeded", worker_site.attempts(kept["id"])
    got = await worker_site.run(
        "fetching",
        {"of": str(kept["id"]), "into": str(tmp_path / "got")},
        tenant="acme",
        queue=worker_site.way,
    )
    assert got["status"] == "succeeded", worker_site.attempts(got["id"])
    assert (tmp_path / "got" / "note.txt").read_text() == "from bytes"
    for name in ("master.m3u8", "720p/0.ts"):
        assert (tmp_path / "got" / "hls" / name).read_bytes() == (folder / name).read_bytes()


async def test_files_may_be_larger_than_what_other_requests_bring(worker_site, tmp_path):
    (tmp_path / "hls").mkdir()
    data = os.urandom(worker_site.settings.max_payload_bytes * 3)
    (tmp_path / "hls" / "0.ts").write_bytes(data)
    kept = await worker_site.run("keeping", {"folder": str(tmp_path / "hls")}, queue=worker_site.way)
    assert kept["status"] == "succeeded", worker_site.attempts(kept["id"])
    got = await worker_site.run(
        "fetching", {"of": str(kept["id"]), "into": str(tmp_path / "got")}, queue=worker_site.way
    )
    assert got["status"] == "succeeded", worker_site.attempts(got["id"])
    assert (tmp_path / "got" / "hls" / "0.ts").read_bytes() == data


async def test_a_job_is_given_a_file_in_the_transaction_that_enqueues_it(worker_site, tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(os.urandom(2_000_000))
    payload = {"into": str(tmp_path / "got.bin")}
    async with await psycopg.AsyncConnection.connect(worker_site.database) as connection:
        handle = await worker_site.enqueuer.enqueue(
            "reading", payload, connection=connection, queue=worker_site.way
        )
        await handle.attach(source, connection=connection)
    row = await worker_site.ended(handle.id)
    assert (row["status"], row["result"]) == ("succeeded", 2_000_000), worker_site.attempts(row["id"])
    assert (tmp_path / "got.bin").read_bytes() == source.read_bytes()


async def test_a_file_is_given_to_queued_jobs_of_ones_own_only(remote_server, tmp_path):
    (tmp_path / "source.bin").write_bytes(b"abc")
    ended = Handle(remote_server.enqueuer, (await Holder.of(remote_server)).id, "created")
    foreign = await remote_server.enqueuer.enqueue("reading", {"into": ""}, tenant="globex", queue="unserved")
    own = await remote_server.enqueuer.enqueue("reading", {"into": ""}, tenant="acme", queue="unserved")
    async with await psycopg.AsyncConnection.connect(remote_server.database) as connection:
        async with tenant_transaction(connection, "acme", seconds=10):
            await own.attach(tmp_path / "source.bin", "a.bin", connection=connection)
            for handle in (ended, foreign):
                with pytest.raises(JobNotFound):
                    await handle.attach(tmp_path / "source.bin", connection=connection)
            stolen = {"job_id": str(own.id), "place": f"{foreign.id}/x", "name": "a"}
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute("select posthouse.attach(%s)", (Jsonb(stolen),))
        await connection.rollback()
    kept = remote_server.db.execute("select count(*) from posthouse.artifacts where job_id = %s", (own.id,))
    assert kept.fetchone() == (0,)
    assert not (remote_server.settings.data_dir / "artifacts" / str(foreign.id)).exists()


async def test_files_of_another_tenant_are_not_there(worker_site, tmp_path):
    kept = await worker_site.run("keeping", {}, tenant="acme", queue=worker_site.way)
    got = await worker_site.run(
        "fetching", {"of": str(kept["id"]), "into": str(tmp_path)}, tenant="globex", queue=worker_site.way
    )
    assert got["status"] == "dead_letter"
    assert worker_site.attempts(got["id"])[-1]["error_type"] == "ArtifactNotFound"
    for tenant, status in (("acme", 200), ("globex", 404)):
        key = await worker_site.key("tenant-viewer", tenant=tenant)
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http:
            url = f"{worker_site.url}/api/v1/jobs/{kept['id']}/artifacts"
            assert (await http.get(url)).status_code == status
            answer = await http.get(f"{url}/note.txt")
            assert answer.status_code == status
    assert answer.json()["code"] == "artifact_not_found"


async def test_a_process_of_its_own_keeps_files_too(worker_site):
    row = await worker_site.run("keeping_in_process", queue=worker_site.way)
    assert row["status"] == "succeeded", worker_site.attempts(row["id"])
    assert row["result"]["size"] == 3


async def test_tenants_list_and_fetch_all_or_a_range(remote_server):
    holder = await Holder.of(remote_server)
    data = bytes(range(256)) * 10
    answer = await holder.ask("PUT", "a/b ü.bin", data)
    assert answer.status_code == 201, answer.text
    await holder.ask("PUT", "empty", b"")
    key = await remote_server.key("tenant-viewer", tenant="acme")
    base = f"{remote_server.url}/api/v1/jobs/{holder.id}/artifacts"
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http:
        listed = (await http.get(base)).json()
        assert [(item["name"], item["size"]) for item in listed] == [("a/b ü.bin", 2560), ("empty", 0)]
        assert listed[0]["sha256"] == hashlib.sha256(data).hexdigest()
        for asked, status, expected in (
            (None, 200, data), ("bytes=0-9", 206, data[:10]), ("bytes=2550-", 206, data[2550:]),
            ("bytes=-5", 206, data[-5:]), ("bytes=2560-", 416, None), ("lines=1-2", 200, data),
        ):  # fmt: skip
            answer = await http.get(f"{base}/a/b ü.bin", headers={"Range": asked} if asked else {})
            assert answer.status_code == status, asked
            if expected is not None:
                assert answer.content == expected
        assert (await http.get(f"{base}/empty")).content == b""
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_an_upload_goes_on_where_it_was_cut_off_and_appears_when_it_adds_up(remote_server):
    holder = await Holder.of(remote_server)
    data = os.urandom(100_000)
    whole = hashlib.sha256(data).hexdigest()
    first = await holder.ask(
        "PUT", "big", data[:40_000], sha256=whole, **{"Content-Range": "bytes 0-39999/100000"}
    )
    assert (first.status_code, first.headers["upload-offset"]) == (202, "40000")
    assert (await holder.ask("GET", "big")).status_code == 404
    again = await holder.ask(
        "PUT", "big", data[:40_000], sha256=whole, **{"Content-Range": "bytes 0-39999/100000"}
    )
    assert (again.status_code, again.headers["upload-offset"]) == (409, "40000")
    head = await holder.ask("HEAD", "big", sha256=whole)
    assert head.headers["upload-offset"] == "40000"
    rest = await holder.ask(
        "PUT", "big", data[40_000:], sha256=whole, **{"Content-Range": "bytes 40000-99999/100000"}
    )
    assert rest.status_code == 201
    assert (await holder.ask("GET", "big")).content == data


@pytest.mark.parametrize(
    ("name", "data", "headers", "status"),
    [
        ("wrong-sum", b"abc", {"sha256": "0" * 64}, 422),
        ("no-sum", b"abc", {"sha256": "sum"}, 422),
        ("large", b"x" * 4_000_001, {}, 413),
        ("large-to-be", b"x", {"Content-Range": "bytes 0-0/4000001"}, 413),
        ("overfull", b"xyz", {"Content-Range": "bytes 0-1/10"}, 413),
        ("odd-range", b"x", {"Content-Range": "bytes 5-1/10"}, 422),
        ("a/../../etc/passwd", b"x", {}, 422),
        ("a//b", b"x", {}, 422),
        ("a\\b", b"x", {}, 422),
        ("n" * 201, b"x", {}, 422),
    ],
)
async def test_what_cannot_be_kept_is_refused(remote_server, name, data, headers, status):
    holder = await Holder.of(remote_server)
    answer = await holder.ask("PUT", name.replace("..", "%2E%2E").replace("//", "/%2F"), data, **headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    listed = remote_server.db.execute(
        "select count(*) from posthouse.artifacts where job_id = %s", (holder.id,)
    )
    assert listed.fetchone() == (0,)


async def test_a_lost_lease_keeps_nothing(remote_server):
    holder = await Holder.of(remote_server)
    expire_lease_and_rescue(remote_server.db, holder.id)
    for method in ("PUT", "HEAD", "GET"):
        answer = await holder.ask(method, "late", b"x" if method == "PUT" else b"")
        assert answer.status_code == 409
    assert answer.json()["code"] == "lease_lost"


async def test_bytes_go_when_their_artifact_does(remote_server):
    holder = await Holder.of(remote_server)
    await holder.ask("PUT", "a", b"first")
    await holder.ask("PUT", "a", b"second")
    assert (await holder.ask("GET", "a")).content == b"second"
    store = open_store(remote_server.settings)
    connection = ReconnectingConnection(remote_server.database, "test")
    sweeper = Sweeper(connection, store, Uploads(store, remote_server.settings))
    folder = remote_server.settings.data_dir / "artifacts" / str(holder.id)
    assert len(list(folder.iterdir())) == 2
    await sweeper.run_once()
    assert [file.read_bytes() for file in folder.iterdir()] == [b"second"]
    remote_server.db.execute(
        "select posthouse.delete_job_data(array[%s]::uuid[], '{}', '{}', '{}', '{}')", (holder.id,)
    )
    await sweeper.run_once()
    await connection.close()
    assert not folder.exists()
