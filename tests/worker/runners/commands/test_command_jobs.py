"""A command job from its enqueue to its record."""

import psutil
import pytest

from posthouse.errors import InvalidPayload, JobFailed
from support.command_jobs import PRINT_ARGV, attempts, of_attempts, python, shell
from support.waiting import WAIT_SECONDS, eventually
from support.workers import job_row, job_status, running_worker


async def test_a_command_runs_with_the_arguments_that_its_payload_fills_in(app, client, db, define):
    define("list", python(PRINT_ARGV, "--tenant={tenant_id}", "{payload.path}"), result="json")
    async with running_worker(app, commands=True):
        job = await client.enqueue("list", {"path": "a b"}, tenant="acme")
        assert await client.wait(job.id, 20) == ["--tenant=acme", "a b"]
    [attempt] = attempts(db, job.id)
    assert (attempt["outcome"], attempt["exit_code"], attempt["signal"]) == ("succeeded", 0, None)
    assert attempt["pid"] > 0
    assert (attempt["stdout_tail"], attempt["stderr_tail"]) == ('["--tenant=acme", "a b"]\n', "")


async def test_a_command_that_succeeds_emits_its_event_once_with_its_result(app, client, db, define):
    define("list", python(PRINT_ARGV, "{payload.path}"), result="json", emits="folder.listed")
    define("break", shell("exit 3"), emits="folder.broken")
    async with running_worker(app, commands=True):
        job = await client.enqueue("list", {"path": "a"}, tenant="acme", subject="folder-7")
        broken = await client.enqueue("break", max_attempts=1)
        await client.wait(job.id, 20)
        with pytest.raises(JobFailed):
            await client.wait(broken.id, 20)
    shown = "select tenant_id, name, context, subject, correlation_id from posthouse.events"
    assert db.execute(shown).fetchall() == [
        ("acme", "folder.listed", {"result": ["a"]}, "folder-7", str(job.id))
    ]


INJECTIONS = [
    "; touch /tmp/posthouse-owned",
    "$(touch /tmp/posthouse-owned)",
    "`touch /tmp/posthouse-owned`",
    "a\nb | c && d > e",
    "'\"\\ *?~ ${HOME} %s {payload.x} {{x}}",
    "@/etc/passwd",
    "ünï ✓ \x1b[31m",
    "",
]


async def test_a_payload_value_reaches_the_program_as_one_unchanged_argument(app, client, define):
    define("list", python(PRINT_ARGV, "{payload.all*}", "--one={payload.one}"), result="json")
    async with running_worker(app, commands=True):
        job = await client.enqueue("list", {"all": INJECTIONS, "one": "--evil; x"})
        assert await client.wait(job.id, 20) == [*INJECTIONS, "--one=--evil; x"]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({"path": "--delete-everything"}, "starts with '-'"),
        ({"path": -1}, "starts with '-'"),
        ({}, "payload.path"),
        ({"path": ["-x"]}, "payload.path"),
    ],
)
async def test_a_payload_that_makes_no_arguments_is_refused_at_enqueue(client, db, define, payload, why):
    define("list", python(PRINT_ARGV, "{payload.path}"))
    with pytest.raises(InvalidPayload, match=why):
        await client.enqueue("list", payload)
    assert db.execute("select count(*) from posthouse.jobs").fetchone() == (0,)


async def test_arguments_may_need_more_than_the_payload(client, define):
    define("list", python(PRINT_ARGV, "{correlation_id}", "{job_id}", "{attempt}"))
    with pytest.raises(InvalidPayload, match="correlation_id"):
        await client.enqueue("list", {})
    await client.enqueue("list", {}, correlation_id="c-1")


async def test_a_payload_that_came_past_the_check_is_not_retried(app, db, define):
    define("list", python(PRINT_ARGV, "{payload.path}"))
    [job] = db.execute("select posthouse.enqueue('list', '{\"path\": \"--all\"}')").fetchone()
    async with running_worker(app, commands=True):
        await eventually(lambda: job_status(db, job) == "dead_letter", what="the refusal")
    assert of_attempts(db, job, "outcome", "error_type", "pid") == [("failed", "InvalidPayload", None)]


async def test_a_failed_attempt_says_how_and_keeps_what_was_written(app, client, db, define):
    define("fail", shell("echo so far; echo no disk >&2; exit 65"))
    async with running_worker(app, commands=True):
        job = await client.enqueue("fail")
        with pytest.raises(JobFailed):
            await client.wait(job.id, 20)
    found = job_row(db, job.id)
    assert (found["status"], found["last_error"]) == ("failed", "CommandFailed: exit code 65: no disk")
    assert of_attempts(db, job.id, "exit_code", "stdout_tail", "stderr_tail", "traceback") == [
        (65, "so far\n", "no disk\n", None)
    ]


async def test_exit_codes_mean_what_the_definition_says(app, client, db, define):
    codes = {"3": "snooze:10ms", "4": "succeed", "5": "retry"}
    script = 'case $1 in 1) exit 5;; 2) exit "$2";; *) exit 4;; esac'
    retry = {"retry": {"ladder": [0.01]}, "max_attempts": 3}
    define("step", shell(script, "{attempt}", "{payload.code}"), exit_codes=codes, fields=retry)
    async with running_worker(app, commands=True):
        job = await client.enqueue("step", {"code": 5})
        await client.wait(job.id, 20)
        assert of_attempts(db, job.id, "outcome", "exit_code") == [
            ("failed", 5), ("failed", 5), ("succeeded", 4),
        ]  # fmt: skip
        job = await client.enqueue("step", {"code": 3})
        await eventually(lambda: job_row(db, job.id)["snoozes"] > 0, what="the snooze")
    assert of_attempts(db, job.id, "outcome", "exit_code")[:2] == [("failed", 5), ("snoozed", 3)]


async def test_a_worker_has_no_process_for_commands_before_there_is_one_to_run(app, client, define):
    @app.job()
    async def greet() -> str:
        return "hello"

    async with running_worker(app, commands=True) as worker:
        before = {child.pid for child in psutil.Process().children()}
        assert await (await greet.enqueue()).wait(WAIT_SECONDS) == "hello"
        assert worker.commands.guardian_pid is None
        define("list", python(PRINT_ARGV, "{payload.path}"), result="json")
        await eventually(lambda: worker.commands.guardian_pid, what="the start of the guardian")
        assert worker.commands.guardian_pid not in before
        job = await client.enqueue("list", {"path": "a"})
        assert await client.wait(job.id, 20) == ["a"]


async def test_a_program_that_there_is_not_fails_once(app, client, db, define):
    define("nothing", ["no-such-program-anywhere"])
    async with running_worker(app, commands=True):
        job = await client.enqueue("nothing")
        await eventually(lambda: job_status(db, job.id) == "failed", what="the failure")
    assert of_attempts(db, job.id, "outcome", "error_type") == [("failed", "CommandStartError")]
    assert "program no-such-program-anywhere not found" in job_row(db, job.id)["last_error"]


async def test_a_command_that_kills_those_who_look_after_it_is_a_crash(app, client, db, define, token):
    define("kill", shell("echo started; sleep 1000; : $1", token))
    async with running_worker(app, commands=True) as worker:
        job = await client.enqueue("kill")
        await eventually(lambda: psutil.Process(worker.commands.guardian_pid).children(), what="the monitor")
        await eventually(lambda: job_status(db, job.id) == "running", what="the start")
        for crash in range(1, 4):
            await eventually(
                lambda: psutil.Process(worker.commands.guardian_pid).children(recursive=True)[1:],
                what="the command",
            )
            guardian = psutil.Process(worker.commands.guardian_pid)
            guardian.suspend()  # else it may tell of the others before it is gone
            for process in guardian.children():
                process.kill()
            guardian.kill()
            await eventually(lambda n=crash: len(crashes(db, job.id)) == n, what="the crash")
        assert job_status(db, job.id) == "dead_letter"
    assert job_row(db, job.id)["last_error"].startswith("Poison: ")


def crashes(db, job_id):
    return [attempt for attempt in attempts(db, job_id) if attempt["outcome"] == "crashed"]


async def test_handlers_and_commands_share_a_worker_and_a_batch_of_reports(app, client, db, define):
    define("list", shell("echo out"))

    @app.job()
    async def greet(name: str) -> str:
        return f"hello {name}"

    async with running_worker(app, commands=True):
        jobs = [await client.enqueue("list") for _ in range(5)]
        handles = [await greet.enqueue(name=str(n)) for n in range(5)]
        for job in (*jobs, *handles):
            await client.wait(job.id, 20)
    assert [of_attempts(db, job.id, "stdout_tail") for job in jobs] == [[("out\n",)]] * 5
    assert [of_attempts(db, job.id, "stdout_tail", "pid") for job in handles] == [[(None, None)]] * 5
