"""What a running command writes is seen while it runs."""

from support.command_jobs import log_texts, shell
from support.waiting import eventually
from support.workers import job_row, job_status, running_worker, wait_for_startup_heartbeats

WAIT = 'until [ -e "$1" ]; do sleep 0.01; done'


async def test_its_lines_are_in_the_log_while_it_runs(app, client, db, define, tmp_path):
    define("talk", shell(f"echo one; echo two >&2; {WAIT}; printf three", "{payload.go}"))
    async with running_worker(app, commands=True):
        job = await client.enqueue("talk", {"go": str(tmp_path / "go")})
        await eventually(
            lambda: sorted(log_texts(db, job.id)) == [("stderr", "two"), ("stdout", "one")], what="the lines"
        )
        assert job_status(db, job.id) == "running"
        (tmp_path / "go").touch()
        await client.wait(job.id, 20)
    assert log_texts(db, job.id)[-1] == ("stdout", "three")


async def test_its_progress_is_the_jobs(app, client, db, define, tmp_path):
    line = 'posthouse: {"percent": 40, "step": "tag", "message": "12 of 30"}'
    last = 'posthouse: {"percent": 90}'
    define("tag", shell(f"echo '{line}'; {WAIT}; echo '{last}'", "{payload.go}"), progress="lines")
    async with running_worker(app, commands=True):
        job = await client.enqueue("tag", {"go": str(tmp_path / "go")})
        await eventually(lambda: job_row(db, job.id)["progress_percent"] == 40, what="the progress")
        found = job_row(db, job.id)
        assert (found["current_step"], found["progress_message"]) == ("tag", "12 of 30")
        (tmp_path / "go").touch()
        await client.wait(job.id, 20)
    assert job_row(db, job.id)["progress_percent"] == 100


async def test_without_being_asked_for_it_progress_is_only_output(app, client, db, define):
    define("tag", shell("echo 'posthouse: {\"percent\": 40}'"))
    async with running_worker(app, commands=True):
        job = await client.enqueue("tag")
        await client.wait(job.id, 20)
    assert job_row(db, job.id)["progress_percent"] is None


async def test_a_report_extends_the_lease(app, client, db, define, tmp_path):
    define("tag", shell(f"{WAIT}; echo 'posthouse: {{\"percent\": 1}}'; sleep 1000", "{payload.go}"),
           progress="lines")  # fmt: skip

    def lease():
        return db.execute("select lease_expires_at from posthouse.running").fetchone()

    async with running_worker(
        app, commands=True, heartbeat_seconds=30, lease_seconds=60, drain=0.1
    ) as worker:
        await wait_for_startup_heartbeats(worker)
        beats = worker.heartbeat.beats
        job = await client.enqueue("tag", {"go": str(tmp_path / "go")})
        await eventually(lambda: job_status(db, job.id) == "running", what="the start")
        before = lease()
        (tmp_path / "go").touch()
        await eventually(lambda: job_row(db, job.id)["progress_percent"] == 1, what="the progress")
        assert lease() > before
        assert worker.heartbeat.beats == beats, "it was the report, not a beat"


async def test_a_flood_of_output_is_truncated_at_its_start_and_other_jobs_run_on(app, client, db, define):
    define("flood", shell("yes | head -c 50000000; echo end"), max_output_bytes=1000)
    async with running_worker(app, commands=True, job_log_bytes=10_000):
        job = await client.enqueue("flood")
        await client.wait(job.id, 60)
    [(tail,)] = db.execute(
        "select stdout_tail from posthouse.attempts where job_id = %s", (job.id,)
    ).fetchall()
    assert len(tail) <= 1000
    assert tail.endswith("y\nend\n")
    assert log_texts(db, job.id)[-1] == ("stdout", "end")
