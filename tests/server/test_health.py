"""Whether all is well, asked over HTTP."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

from posthouse.cli.run_server import ServerProcess
from posthouse.server.health import UNREACHABLE
from support.server import RunningServer
from support.tcp_proxy import TcpProxy
from support.waiting import WAIT_SECONDS


async def test_strangers_hear_names_and_operators_everything(api, app, db):
    db.execute("select posthouse.enqueue('absent-kind')")
    stranger, boss = api.client(), await api.client_for("super-admin")
    short = await stranger.get("/api/health")
    full = (await boss.get("/api/health")).json()
    assert set(short.json()) == {"status", "causes"}
    assert {"check": "keeper", "severity": "warning"} in short.json()["causes"]
    assert "absent" not in short.text
    assert full["queued"] == full["ready"] == 1
    assert full["oldest_ready_seconds"] >= 0
    assert full["database_milliseconds"] > 0
    assert full["storage_free_bytes"] > 0
    assert full["workers"] == {"active": 0, "busy": 0, "disabled": 0, "idle": 0, "offline": 0}
    assert (await (await api.client_for("tenant-admin", "acme")).get("/api/health")).json() == short.json()
    assert (await api.client("nonsense").get("/api/health")).json() == short.json()


async def test_jobs_that_no_worker_runs_are_a_warning_and_not_a_failure(api, settings, db):
    db.execute("select posthouse.enqueue('no-worker-has-this')")
    db.execute("update posthouse.ready set queued_at = queued_at - interval '1 hour',"
               " scheduled_for = scheduled_for - interval '1 hour'")  # fmt: skip
    answer = await api.client().get("/api/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert {"check": "unserved", "severity": "warning"} in answer.json()["causes"]
    for path in ("/health", "/ready"):
        assert (await api.client().get(path)).status_code == 200


async def test_a_server_without_its_database_is_alive_and_not_ready(api, settings):

    with TcpProxy.for_url(settings.database_url) as proxy:
        cut_off = replace(settings, database_url=proxy.url_for(settings.database_url))
        async with RunningServer(cut_off, database=api.database) as server:
            client = server.client()
            assert (await client.get("/ready")).json() == {"status": "ready"}
            proxy.refuse_connections()
            proxy.disconnect_all()
            async with asyncio.timeout(WAIT_SECONDS):
                while (answer := await client.get("/ready")).status_code == 200:
                    await asyncio.sleep(0.05)
            assert answer.json() == {"status": "unready", "cause": UNREACHABLE}
            assert (await client.get("/health")).json() == {"status": "ok"}
            whole = await client.get("/api/health")
            assert (whole.status_code, whole.json()["causes"][0]["check"]) == (503, "database")
            proxy.accept_connections()
            async with asyncio.timeout(WAIT_SECONDS):
                while (await client.get("/ready")).status_code != 200:
                    await asyncio.sleep(0.05)


async def test_a_schema_that_does_not_fit_is_not_ready(api, db):
    db.execute(
        "insert into posthouse.migrations (number, name, lowest_code) values (9999, 'later', '99.0.0')"
    )
    answer = await api.client().get("/ready")
    assert answer.status_code == 503
    assert "9999" in answer.json()["cause"]


async def test_no_answer_waits_for_its_head_to_be_acknowledged(settings):
    """Which takes 40 ms where the other side has nothing to send meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = ServerProcess(settings)
        await server.start(listening)
        # What it accepts has what the listener has.
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await server.stop()
