"""A remote worker while no server runs: it keeps its attempts, and reports them when a server is back."""

from __future__ import annotations

from uuid import uuid4

import pytest

from support.remote import RemoteServer
from support.server import RunningServer, reserved_port
from support.waiting import eventually

SHORT = {"lease_seconds": 0.5, "heartbeat_seconds": 0.1, "remote_grace_seconds": 600.0}


@pytest.fixture
def port():
    with reserved_port() as port:
        yield port


def outcomes(remote_server, job_id):
    return [(attempt["outcome"], attempt["error_type"]) for attempt in remote_server.attempts(job_id)]


async def test_a_job_outlives_three_outages_that_are_longer_than_its_lease(database, tmp_path, port):
    url = f"http://127.0.0.1:{port}"
    started, until = tmp_path / "started", tmp_path / "until"
    async with RemoteServer.over(database, tmp_path, **SHORT) as remote_server:
        expired = "select count(*) from posthouse.running where lease_expires_at < now()"
        renewed = "select count(*) from posthouse.running where lease_expires_at > now()"
        server = RunningServer(remote_server.settings, port=port)
        await server.start()
        async with remote_server.working(remote_url=url) as worker:
            job_id = await remote_server.enqueue("wait", {"started": str(started), "until": str(until)})
            await eventually(started.exists, what="the start of the job")
            for _ in range(3):
                await server.stop()
                await eventually(
                    lambda: remote_server.db.execute(expired).fetchone() == (1,), what="the expiry"
                )
                await server.start()
                await eventually(
                    lambda: remote_server.db.execute(renewed).fetchone() == (1,), what="the renewal"
                )
            assert worker.executor.lease_grace == 600.0
            until.touch()
            row = await remote_server.ended(job_id)
        await server.stop()
        assert (row["status"], row["crashes"]) == ("succeeded", 0)
        assert outcomes(remote_server, job_id) == [("succeeded", None)]
        assert started.read_text().count("\n") == 1


async def test_a_plain_worker_that_beats_every_30_seconds_is_shown_online(remote_server: RemoteServer):
    """The default interval of the simple worker API; the clock of the database is moved."""
    key, changes = await remote_server.key(), "select change from posthouse.worker_changes order by id"
    http = remote_server.http(key)
    plain = f"{remote_server.url}/api/worker"
    (await http.post(f"{plain}/register", json={"worker_name": "plain"})).raise_for_status()
    for _ in range(10):
        remote_server.db.execute("update posthouse.workers set heartbeat_at = heartbeat_at - interval '30 s'")
        assert (
            remote_server.db.execute("select posthouse.mark_lost_workers(p_remote_grace => '0')").fetchall()
            == []
        )
        assert remote_server.db.execute(
            "select posthouse.is_online(w, null) from posthouse.workers as w"
        ).fetchone() == (True,)
        (await http.post(f"{plain}/heartbeat", json={})).raise_for_status()
    assert remote_server.db.execute(changes).fetchall() == [("started",)]
    offline = "select offline_after = interval '300 s' from posthouse.workers"
    assert remote_server.db.execute(offline).fetchone() == (True,)


async def test_a_worker_is_offline_after_five_missed_heartbeats(remote_server: RemoteServer):
    http = remote_server.http(await remote_server.key())
    for beat, lease, offline in ((30, 60, 150), (1, 30, 30)):
        worker = str(uuid4())
        body = {"worker_id": worker, "heartbeat_seconds": beat, "lease_seconds": lease}
        answer = await http.post("register", json=body)
        assert answer.json()["lease_grace_seconds"] == remote_server.settings.remote_grace_seconds
        ask = "select extract(epoch from offline_after)::integer from posthouse.workers where id = %s"
        assert remote_server.db.execute(ask, (worker,)).fetchone() == (offline,)


async def test_intervals_of_the_simple_worker_api_are_settings(database, tmp_path):
    chosen = {"simple_claim_seconds": 60.0, "simple_heartbeat_seconds": 5.0, "offline_seconds": 7.0}
    async with RemoteServer.over(database, tmp_path, **chosen) as remote_server:
        http = remote_server.http(await remote_server.key())
        plain, admin = (
            f"{remote_server.url}/api/worker",
            remote_server.http(await remote_server.key("super-admin")),
        )
        body = {"worker_name": "plain", "queues": ["default"], "kinds": ["chop"]}
        known = (await http.post(f"{plain}/register", json=body)).json()
        assert (known["heartbeat_seconds"], known["claim_seconds"]) == (5, 60)
        job_id = await remote_server.enqueue("chop")
        claimed = (await http.post(f"{plain}/claim", json={})).json()
        assert (claimed["job"]["job_id"], claimed["claim_seconds"]) == (str(job_id), 60)
        ask = "select extract(epoch from lease_expires_at - attempt_started_at)::float from posthouse.running"
        assert remote_server.db.execute(ask).fetchone() == (60,)

        async def status():
            (worker,) = (await admin.get(f"{remote_server.url}/api/v1/admin/workers")).json()
            return worker["status"]

        assert await status() == "busy"
        remote_server.db.execute("update posthouse.workers set heartbeat_at = heartbeat_at - interval '8 s'")
        assert await status() == "offline"
