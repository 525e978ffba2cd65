"""Remote workers in processes and on networks of their own, killed, stopped and cut off while they work."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from posthouse.keeper.keeper import Keeper
from support import forkserver
from support.isolated_worker import relay
from support.remote import QUICK, SOURCE, RemoteServer
from support.server import RunningServer, reserved_port
from support.tcp_proxy import TcpProxy
from support.waiting import eventually

TESTS = Path(__file__).parents[2]
PORT = 8765
FAST = {**QUICK, "lease_seconds": 4, "process_slots": 1}
"""With leases that tests wait to end. The workers that take over have longer ones."""
LONG_LEASE = {"lease_seconds": 60}


class Fleet:
    """Remote workers as processes. What they know is the address of a proxy, and a key."""

    def __init__(self, remote_server, folder):
        self.remote_server = remote_server
        self.proxy = TcpProxy("127.0.0.1", urlsplit(remote_server.url).port)
        self.workers = []
        self._island = folder / "way-out"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._island))
        self._listening.listen()
        relay(self._listening, lambda: socket.create_connection((self.proxy.host, self.proxy.port)))
        self._keeper = Keeper(remote_server.database, remote_server.settings)

    @classmethod
    @asynccontextmanager
    async def of(cls, remote_server, folder):
        fleet = cls(remote_server, folder)
        fleet.key = await remote_server.key()
        await fleet._keeper.start()
        try:
            yield fleet
        finally:
            for worker in fleet.workers:
                if worker.poll() is None:
                    worker.send_signal(signal.SIGCONT)
                    worker.kill()
                    worker.wait()
            await fleet._keeper.stop()
            fleet._listening.close()
            fleet.proxy.close()

    async def start(self, *, island=False, **settings):
        url = f"http://127.0.0.1:{PORT if island else self.proxy.port}"
        known = {**FAST, "remote_url": url, "remote_key": self.key, **settings}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        given = {f"POSTHOUSE_{name.upper()}": str(value) for name, value in known.items()}
        env = {**kept, **given, "PYTHONPATH": f"{SOURCE}:{TESTS}"}
        if island:
            away = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
            command = [
                *away,
                sys.executable,
                str(TESTS / "support" / "isolated_worker.py"),
                str(PORT),
                str(self._island),
            ]
            process = subprocess.Popen(command, env=env)  # noqa: ASYNC220 - it takes a moment
        else:
            process = forkserver.start_python(
                ["-c", "from support import conformance_jobs; conformance_jobs.work_here()"], env=env
            )
        self.workers.append(process)
        ask = "select count(*) from posthouse.workers where pid = %s and stopped_at is null"
        await eventually(
            lambda: self.remote_server.db.execute(ask, (process.pid,)).fetchone() == (1,),
            what="the start of a worker",
        )
        return process


@pytest.fixture
async def fleet(database, tmp_path):
    async with (
        RemoteServer.over(database, tmp_path, **FAST) as remote_server,
        Fleet.of(remote_server, tmp_path) as fleet,
    ):
        yield fleet


async def holding(fleet, tmp_path, name="one"):
    """A job that has started and goes on until it is let go."""
    started, until = tmp_path / f"{name}-started", tmp_path / f"{name}-until"
    job_id = await fleet.remote_server.enqueue("wait", {"started": str(started), "until": str(until)})
    await eventually(started.exists, what="the start of the job")
    return job_id, until


def network_of(pid):
    return Path(f"/proc/{pid}/ns/net").readlink()


def outcomes(fleet, job_id):
    return [attempt["outcome"] for attempt in fleet.remote_server.attempts(job_id)]


async def test_a_worker_without_any_way_to_the_database_runs_jobs(fleet, tmp_path):
    try:
        subprocess.run(["unshare", "--net", "true"], check=True, capture_output=True)  # noqa: ASYNC221
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("network namespaces need root and util-linux")
    worker = await fleet.start(island=True)
    ids = [await fleet.remote_server.enqueue("add", {"a": n, "b": 1}) for n in range(50)]
    assert [(await fleet.remote_server.ended(job_id))["result"] for job_id in ids] == [
        n + 1 for n in range(50)
    ]
    assert network_of(worker.pid) != network_of(os.getpid())
    row = await fleet.remote_server.run("enqueueing")
    assert fleet.remote_server.attempts(row["id"])[-1]["error_type"] == "DatabaseRequired"
    worker.terminate()
    assert await asyncio.to_thread(worker.wait, 20) == 0


async def test_jobs_of_a_killed_worker_run_elsewhere_when_their_leases_have_run_out(fleet, tmp_path):
    first = await fleet.start()
    job_id, until = await holding(fleet, tmp_path)
    first.kill()
    await fleet.start(**LONG_LEASE)
    until.touch()
    assert (await fleet.remote_server.ended(job_id))["status"] == "succeeded"
    assert outcomes(fleet, job_id) == ["lost", "succeeded"]
    state = "select lost_at is not null from posthouse.workers where pid = %s"
    await eventually(
        lambda: fleet.remote_server.db.execute(state, (first.pid,)).fetchone() == (True,),
        what="its being found lost",
    )


async def test_the_late_completion_of_a_stopped_worker_changes_nothing(fleet, tmp_path):
    first = await fleet.start()
    job_id, until = await holding(fleet, tmp_path)
    first.send_signal(signal.SIGSTOP)
    await eventually(lambda: outcomes(fleet, job_id)[:1] == ["lost"], what="the rescue")
    await fleet.start(**LONG_LEASE)
    until.touch()
    row = await fleet.remote_server.ended(job_id)
    first.send_signal(signal.SIGCONT)
    more = await fleet.remote_server.enqueue("add", {"a": 1, "b": 1})
    await fleet.remote_server.ended(more)
    assert fleet.remote_server.row(job_id) == row
    assert outcomes(fleet, job_id) == ["lost", "succeeded"]


async def test_sigterm_finishes_what_runs_and_takes_nothing_new(fleet, tmp_path):
    worker = await fleet.start(**LONG_LEASE)
    job_id, until = await holding(fleet, tmp_path)
    ports = {link.raddr.port for link in psutil.Process(worker.pid).net_connections("tcp") if link.raddr}
    assert ports == {fleet.proxy.port}
    worker.terminate()
    state = "select count(*) from posthouse.workers where pid = %s and stopped_at is not null"
    later = await fleet.remote_server.enqueue("add", {"a": 1, "b": 1})
    until.touch()
    assert (await fleet.remote_server.ended(job_id))["result"] == "released"
    assert await asyncio.to_thread(worker.wait, 20) == 0
    assert fleet.remote_server.db.execute(state, (worker.pid,)).fetchone() == (1,)
    assert set(outcomes(fleet, later)) <= {"released"}  # if it was claimed before the signal came
    assert fleet.remote_server.row(later)["status"] == "queued"


async def test_a_disconnected_worker_releases_its_jobs_before_they_are_rescued(fleet, tmp_path):
    await fleet.start()
    job_id, until = await holding(fleet, tmp_path)
    fleet.proxy.refuse_connections()
    await eventually(lambda: outcomes(fleet, job_id) == ["lost"], what="the rescue")
    fleet.proxy.accept_connections()
    until.touch()
    assert (await fleet.remote_server.ended(job_id))["status"] == "succeeded"
    assert outcomes(fleet, job_id) == ["lost", "succeeded"]


def when_answered(needle):
    """True for what is answered after a request with these bytes: the server was done with it."""
    seen = threading.Event()

    def predicate(direction, chunk):
        if direction == "request":
            if needle in chunk:
                seen.set()
            return False
        return seen.is_set()

    return predicate


async def test_an_answer_that_never_arrives_does_no_harm(fleet, tmp_path):
    await fleet.start()
    ids = []
    for path in (b"jobs/claim", b"jobs/complete", b"jobs/settle", b"jobs/progress", b"steps"):
        cuts = fleet.proxy.cuts
        fleet.proxy.disconnect_after(when_answered(path))
        ids += [await fleet.remote_server.enqueue("resuming") for _ in range(2)]
        await eventually(lambda cuts=cuts: fleet.proxy.cuts > cuts, what=f"an answer to {path}")
    for row in [await fleet.remote_server.ended(job_id) for job_id in ids]:
        assert row["status"] == "succeeded"
        assert outcomes(fleet, row["id"]).count("succeeded") == 1
        assert row["result"]["steps"] == ["once"]


async def test_a_revoked_key_ends_its_workers(fleet):
    worker = await fleet.start()
    prefix = fleet.key.split("_")[1]
    fleet.remote_server.db.execute("select posthouse.revoke_key(%s)", (prefix,))
    assert await asyncio.to_thread(worker.wait, 30) != 0


async def test_nothing_is_lost_or_done_twice_under_all_of_it_at_once(database, tmp_path):
    """Kills, stops, cuts and restarts of the server, while 100 jobs run."""
    chance = random.Random(7)
    marks = tmp_path / "marks"
    marks.mkdir()
    async with (
        RemoteServer.over(database, tmp_path, **FAST) as remote_server,
        Fleet.of(remote_server, tmp_path) as fleet,
    ):
        workers = [await fleet.start(concurrency=5) for _ in range(2)]
        payloads = [{"folder": str(marks), "seconds": chance.random() / 20} for _ in range(100)]
        handles = await asyncio.gather(
            *(remote_server.enqueuer.enqueue("mark", payload) for payload in payloads)
        )
        for round_ in range(4):
            fleet.proxy.disconnect_after(when_answered(chance.choice([b"jobs/claim", b"jobs/complete"])))
            await asyncio.sleep(0.1)
            match round_:
                case 0:
                    workers[0].kill()
                    workers[0].wait()
                    workers[0] = await fleet.start(concurrency=5)
                case 1:
                    fleet.proxy.disconnect_all()
                case 2:
                    workers[1].send_signal(signal.SIGSTOP)
                    await asyncio.sleep(0.3)
                    workers[1].send_signal(signal.SIGCONT)
                case 3:
                    fleet.proxy.refuse_connections()
                    await asyncio.sleep(0.2)
                    fleet.proxy.accept_connections()
        for handle in handles:
            row = await remote_server.ended(handle.id)
            assert row["status"] == "succeeded"
            recorded = outcomes(fleet, handle.id)
            assert recorded.count("succeeded") == 1
            assert recorded[-1] == "succeeded"
            ran = (marks / str(handle.id)).read_text().split()
            assert len(ran) <= len(recorded)
        assert remote_server.db.execute("select count(*) from posthouse.running").fetchone() == (0,)
        assert remote_server.db.execute("select count(*) from posthouse.jobs").fetchone() == (100,)


@pytest.fixture
def port():
    with reserved_port() as port:
        yield port


async def test_a_server_that_is_restarted_under_load_finds_its_workers_again(database, tmp_path, port):
    async with RemoteServer.over(database, tmp_path, **FAST) as remote_server:
        key = await remote_server.key()
        async with Fleet.of(remote_server, tmp_path) as fleet:
            fleet.key = key
            fleet.proxy.target = ("127.0.0.1", port)
            done = []
            for _ in range(3):
                async with RunningServer(remote_server.settings, port=port):
                    if not fleet.workers:
                        await fleet.start()
                    done += [await remote_server.enqueue("add", {"a": n, "b": 1}) for n in range(30)]
                    await remote_server.ended(done[0])
            async with RunningServer(remote_server.settings, port=port):
                for job_id in done:
                    assert (await remote_server.ended(job_id))["status"] == "succeeded"
                    assert outcomes(fleet, job_id).count("succeeded") == 1
