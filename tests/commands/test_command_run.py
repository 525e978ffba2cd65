"""Running programs: arguments, environment, endings, limits."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from posthouse.commands import PERMANENT, CommandRunner, CommandSpec
from posthouse.core.outcome import Fail, Snooze, TimedOut
from posthouse.errors import CommandFailed, CommandStartError, InvalidPayload
from support.commands import NOTHING, PRINT_ARGV, PRINT_ENV, python, shell, values
from support.waiting import eventually
from support.workers import signals_ignored

HOSTILE = [
    "; touch /tmp/pwned",
    "$(id)",
    "`id`",
    "&& reboot",
    "| sh",
    "a\nb",
    "'",
    '"',
    "\\",
    "$HOME",
    "${IFS}",
    "*",
    "~",
    "{a,b}",
    "{payload.other}",
    "{{",
    "!!",
    "#",
    "%s%n",
    "> /etc/passwd",
    "<(id)",
    "\t \r",
    "\x1b[2J",
    "é€🦊",
    "\u202e",
    "a=b",
    "@/etc/passwd",
    "",
    " -rf",
    "x" * 100_000,
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
async def test_a_hostile_value_is_one_argument_and_no_more(runner, value):
    spec = python(
        PRINT_ARGV, "{payload.p}", "--x={payload.p}", ["{payload.q?}"], result="json", max_output_bytes=10**6
    )
    done = await runner.run(spec, values(p=value, other="other"))
    assert done.result == [value, f"--x={value}"]


@pytest.mark.parametrize("value", ["-rf", "--help", "-", "a\x00b"])
async def test_an_option_or_a_nul_ends_the_job_before_anything_runs(runner, value):
    with pytest.raises(InvalidPayload) as caught:
        await runner.run(python(PRINT_ARGV, "{payload.p}"), values(p=value))
    assert isinstance(caught.value, PERMANENT)
    assert runner.guardian_pid is None


async def test_arguments_larger_than_a_socket_buffer_arrive(runner):
    spec = python("import sys; print(sum(map(len, sys.argv[1:])))", "{payload.f*}", result="json")
    assert (await runner.run(spec, values(f=["x" * 100_000] * 15))).result == 1_500_000


async def test_the_environment_is_clean(runner, monkeypatch):
    monkeypatch.setenv("POSTHOUSE_DATABASE_URL", "postgres://secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("PASSED_ON", "yes")
    spec = python(PRINT_ENV, env={"MODE": "batch"}, inherit_env=["PASSED_ON", "NOT_SET"], result="json")
    result = (await runner.run(spec, NOTHING)).result
    result.pop("LC_CTYPE", None)  # Python sets it itself
    assert result == {"MODE": "batch", "PASSED_ON": "yes"}


async def test_the_path_is_passed_on_unless_told_otherwise(runner):
    result = (await runner.run(python(PRINT_ENV, result="json"), NOTHING)).result
    assert result["PATH"] == f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"
    assert "VIRTUAL_ENV" not in result


async def test_the_commands_own_path_finds_the_program(runner, tmp_path):
    program = tmp_path / "greet"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    spec = CommandSpec(argv=["greet"], env={"PATH": str(tmp_path)}, inherit_env=[])
    assert (await runner.run(spec, NOTHING)).stdout_tail == "hello\n"


async def test_it_has_its_own_session_no_input_no_descriptors_and_usual_signals(runner, tmp_path):
    code = (
        "import json, os, signal, sys\n"
        "print(json.dumps({'leader': os.getsid(0) == os.getpid() == os.getpgid(0), 'cwd': os.getcwd(),\n"
        " 'input': sys.stdin.read(), 'fds': sorted(map(int, os.listdir('/proc/self/fd')))[:-1],\n"
        " 'ignored': [l for l in open('/proc/self/status') if l.startswith(('SigIgn', 'SigBlk'))]}))\n"
    )
    # Python itself ignores SIGPIPE and SIGXFSZ again. Signals from 32 on belong to the C library.
    spec = python(code, cwd=str(tmp_path), result="json")
    result = (await runner.run(spec, NOTHING)).result
    blocked, ignored = (int(text.split()[1], 16) & 0x7FFFFFFF for text in result.pop("ignored"))
    assert (blocked, ignored) == (0, (1 << signal.SIGPIPE - 1) | (1 << signal.SIGXFSZ - 1))
    assert result == {"leader": True, "cwd": str(tmp_path), "input": "", "fds": [0, 1, 2]}


async def test_no_signal_is_ignored_because_the_worker_was_started_in_the_background():
    with signals_ignored():
        async with CommandRunner(grace=0.5) as runner:
            done = await runner.run(shell("exec grep -E 'Sig(Ign|Blk)' /proc/self/status"), NOTHING)
    assert [int(line.split()[1], 16) & 0x7FFFFFFF for line in done.stdout_tail.splitlines()] == [0, 0]


@pytest.mark.parametrize(
    ("script", "ending", "says"),
    [
        ("exit 0", type(None), "exit code 0"),
        ("echo why >&2; exit 1", CommandFailed, "exit code 1: why"),
        ("exit 75", CommandFailed, "exit code 75"),
        ("exit 65", Fail, "exit code 65"),
        ("exit 3", Snooze, "exit code 3"),
        ("kill -SEGV $$", CommandFailed, "SIGSEGV"),
        ("kill -KILL $$", Fail, "SIGKILL"),
    ],
)
async def test_exit_codes_and_signals_become_endings(runner, script, ending, says):
    done = await runner.run(shell(script, exit_codes={"3": "snooze:30s", "137": "fail"}), NOTHING)
    assert type(done.to_outcome()) is ending
    assert says in done.reason


async def test_a_kill_from_outside_is_reported(runner):
    pids = []
    run = asyncio.create_task(runner.run(shell("sleep 1000"), NOTHING, on_start=pids.append))
    await eventually(lambda: pids)
    os.kill(pids[0], signal.SIGKILL)
    done = await asyncio.wait_for(run, 20)
    assert (done.pid, done.exit_code, done.signal) == (pids[0], None, signal.SIGKILL)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-program"], "program no-such-program not found on the PATH"),
        (["/no/such/program"], "program /no/such/program not found"),
        (["{folder}/data"], "not executable"),
        (["{folder}"], "not executable"),
        (["{folder}/bare"], "#!/bin/sh"),
        (["{folder}/orphan"], "interpreter"),
        (["true", "x" * 200_000], "too long"),
    ],
)
async def test_a_program_that_cannot_be_started_is_no_matter_for_a_retry(runner, tmp_path, argv, says):
    (tmp_path / "data").write_text("data")
    (tmp_path / "bare").write_text("echo hello\n")
    (tmp_path / "orphan").write_text("#!/no/such/interpreter\n")
    for name in ("bare", "orphan"):
        (tmp_path / name).chmod(0o755)
    spec = CommandSpec(argv=[part.replace("{folder}", str(tmp_path)) for part in argv])
    with pytest.raises(CommandStartError, match=says) as caught:
        await runner.run(spec, NOTHING)
    assert isinstance(caught.value, PERMANENT)


async def test_a_missing_directory_is_named(runner):
    with pytest.raises(CommandStartError, match="/no/such/folder"):
        await runner.run(shell("true", cwd="/no/such/folder"), NOTHING)


async def test_a_missing_secret_is_named(runner):
    with pytest.raises(CommandStartError, match="api-key"):
        await runner.run(shell("true", secrets={"KEY": "api-key"}), NOTHING, secrets={"other": "x"})


async def test_memory_is_limited(runner):
    spec = python("x = bytearray(300_000_000)", memory_mb=100)
    done = await runner.run(spec, NOTHING)
    assert done.exit_code == 1
    assert "MemoryError" in done.stderr_tail
    assert (await runner.run(python("x = bytearray(50_000_000)", memory_mb=100), NOTHING)).exit_code == 0


async def test_reserved_address_space_is_not_memory(runner):
    code = "import mmap; m = mmap.mmap(-1, 10**10, prot=0)"
    assert (await runner.run(python(code, memory_mb=100), NOTHING)).exit_code == 0


async def test_cpu_time_is_limited(runner):
    done = await runner.run(python("while True: pass", cpu_seconds=1), NOTHING, timeout=60)
    assert done.signal == signal.SIGXCPU
    assert "CPU" in done.reason


async def test_who_ignores_the_cpu_limit_is_killed(runner):
    code = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    done = await runner.run(python(code, cpu_seconds=1), NOTHING, timeout=60)
    assert (done.signal, done.outcome.action) == (signal.SIGKILL, "retry")


async def test_open_files_and_core_dumps_are_limited(runner):
    code = (
        "import json, resource as r\n"
        "print(json.dumps([r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_CORE)]))"
    )
    done = await runner.run(python(code, open_files=50, result="json"), NOTHING)
    assert done.result == [[50, 50], [0, 0]]


async def test_a_timeout_ends_it_and_keeps_what_it_wrote(runner):
    done = await runner.run(shell("echo before; sleep 1000"), NOTHING, timeout=1.5)
    assert isinstance(done.to_outcome(), TimedOut)
    assert (done.stdout_tail, done.signal) == ("before\n", signal.SIGTERM)


async def test_a_command_may_use_its_grace(runner):
    script = 'trap "echo cleaned up; exit 0" TERM; echo ready; while :; do sleep 0.01; done'
    async with CommandRunner(grace=30) as patient:
        done = await patient.run(shell(script), NOTHING, timeout=1.5)
    assert done.stdout_tail == "ready\ncleaned up\n"
    assert (done.exit_code, done.outcome.action) == (0, "timeout")


async def test_fifty_commands_run_at_the_same_time(runner, tmp_path):
    """None ends before all have started."""
    script = (
        f'touch "{tmp_path}/$1"; while [ $(ls "{tmp_path}" | wc -l) -lt 50 ]; do sleep 0.05; done; echo $1'
    )
    spec = shell(script, "{payload.n}")
    done = await asyncio.gather(*(runner.run(spec, values(n=n), timeout=90) for n in range(50)))
    assert [end.stdout_tail for end in done] == [f"{n}\n" for n in range(50)]


async def test_resource_usage_is_reported(runner):
    done = await runner.run(python("x = bytearray(50_000_000)\nfor i in range(10**6): pass"), NOTHING)
    assert done.max_rss_mb > 45
    assert done.cpu_seconds > 0
    assert done.seconds > 0


async def test_it_is_ended_first_when_memory_runs_out(runner):
    done = await runner.run(shell("cat /proc/self/oom_score_adj"), NOTHING)
    assert int(done.stdout_tail) >= 500


async def test_a_command_cannot_gain_privileges(runner):
    done = await runner.run(shell("grep NoNewPrivs /proc/self/status"), NOTHING)
    assert done.stdout_tail.split()[1] == "1"


def test_a_runner_serves_one_loop_after_another():
    runner = CommandRunner()
    try:
        for _ in range(2):
            assert asyncio.run(runner.run(shell("head -c 9000000 /dev/zero"), NOTHING)).exit_code == 0
    finally:
        runner.close()


def test_it_runs_on_uvloop():
    uvloop = pytest.importorskip("uvloop")
    runner = CommandRunner()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
            done = loop.run(runner.run(python(PRINT_ARGV, "x", result="json"), NOTHING))
    finally:
        runner.close()
    assert done.result == ["x"]


async def test_the_pid_is_the_commands_own(runner):
    done = await runner.run(python("import json, os; print(json.dumps(os.getpid()))", result="json"), NOTHING)
    assert done.result == done.pid


RENICED = """
import os
from posthouse.commands.guardian.launch import launch
os.nice(5)
if os.geteuid() == 0:
    os.setuid(65534)  # root may go back
limits = dict.fromkeys(["confined", "open_files", "memory_mb", "cpu_seconds", "expendable"], 0)
pid = launch({"argv": ["true"], "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/", **limits}, (1, 2))
print("exit code", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_worker_that_was_reniced_starts_commands():
    """A user may lower the priority of a process, but never raise it again."""
    ran = subprocess.run([sys.executable, "-c", RENICED], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("exit code 0\n", "")
