"""Output: tails, live text, floods, secrets, progress, results."""

import asyncio

import psutil
import pytest

from posthouse.commands import CommandProgress
from posthouse.commands.output import LIVE_LIMIT, LiveOutput, Masker, ProgressLines
from support.commands import NOTHING, python, shell


class RecordedOutput:
    """The live output and progress of a command."""

    def __init__(self):
        self.text = {"stdout": "", "stderr": ""}
        self.progress = []

    def record(self, stream, text):
        self.text[stream] += text


async def test_both_streams_are_kept_apart(runner):
    done = await runner.run(shell("echo out; echo err >&2"), NOTHING)
    assert (done.stdout_tail, done.stderr_tail) == ("out\n", "err\n")
    assert (done.stdout_dropped, done.stderr_dropped) == (0, 0)


async def test_the_end_of_long_output_is_kept_and_the_rest_counted(runner):
    done = await runner.run(python("print('x' * 5000 + 'end')", max_output_bytes=10), NOTHING)
    assert done.stdout_tail == "xxxxxxend\n"
    assert done.stdout_dropped == 5004 - 10


async def test_a_tail_does_not_start_inside_a_character(runner):
    done = await runner.run(python("print('é' * 100, end='')", max_output_bytes=5), NOTHING)
    assert done.stdout_tail == "éé"


async def test_no_output_may_be_kept(runner):
    done = await runner.run(shell("echo out", max_output_bytes=0), NOTHING)
    assert (done.stdout_tail, done.stdout_dropped) == ("", 4)


async def test_what_is_not_text_is_replaced(runner):
    output = RecordedOutput()
    code = r"import sys; sys.stdout.buffer.write(b'a\xff\x00b')"
    done = await runner.run(python(code), NOTHING, on_output=output.record)
    assert done.stdout_tail == output.text["stdout"] == "a\ufffd\\u0000b"


async def test_output_comes_while_the_command_runs(runner, tmp_path):
    go = tmp_path / "go"
    script = f'echo first; printf partial; while [ ! -e "{go}" ]; do sleep 0.01; done; echo last'
    output = RecordedOutput()

    def listen(stream, text):
        output.record(stream, text)
        if "partial" in output.text["stdout"]:
            go.touch()

    await runner.run(shell(script), NOTHING, on_output=listen, timeout=20)
    assert output.text["stdout"] == "first\npartiallast\n"


async def test_live_text_has_whole_characters(runner, tmp_path):
    go = tmp_path / "go"
    code = (
        "import os, sys, time\n"
        "os.write(1, 'a€'.encode()[:2])\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
        "os.write(1, '€'.encode()[1:])\n"
    )
    pieces = []

    def listen(_, text):
        pieces.append(text)
        go.touch()

    await runner.run(python(code), NOTHING, on_output=listen, timeout=20)
    assert pieces == ["a", "€"]


@pytest.mark.soak
async def test_a_flood_costs_neither_memory_nor_the_others_time(runner):
    before = psutil.Process().memory_info().rss
    flood = asyncio.create_task(
        runner.run(shell("head -c 300000000 /dev/zero; echo end"), NOTHING, on_output=lambda *_: None)
    )
    others = 0
    while not flood.done():
        await runner.run(shell("true"), NOTHING)
        others += 1
    done = await flood
    assert done.stdout_dropped > 299_000_000
    assert done.stdout_tail.endswith("end\n")
    assert others >= 5
    assert psutil.Process().memory_info().rss - before < 50_000_000


def test_of_a_flood_only_the_end_is_passed_on():
    live = LiveOutput()
    live.feed(b"start")
    live.feed(b"x" * LIVE_LIMIT)
    text = live.take()
    assert text.startswith("\n[5 bytes omitted]\n")
    assert text.endswith("x" * LIVE_LIMIT)
    assert live.take() == ""


async def test_a_listener_that_fails_does_not_end_the_command(runner, caplog):
    def listen(stream, text):
        raise ValueError("no")

    done = await runner.run(shell("echo a"), NOTHING, on_output=listen)
    assert done.exit_code == 0
    assert "listener" in caplog.text


async def test_a_grandchild_that_keeps_the_pipe_open_does_not_hang_the_run(runner, token):
    script = "setsid sh -c 'sleep 1000; : $0' $1 & echo done"
    done = await runner.run(shell(script, token), NOTHING, timeout=60)
    assert (done.stdout_tail, done.outcome.action) == ("done\n", "succeed")


async def test_an_outsider_that_keeps_the_pipe_open_does_not_hang_the_run(runner, tmp_path):
    """Its descriptor went over a socket to a process that is none of ours to end."""
    address = str(tmp_path / "socket")
    keeper = await asyncio.create_subprocess_exec(
        "python3", "-c", KEEPER, address, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.PIPE
    )
    try:
        await keeper.stdout.readline()
        giver = (
            "import socket, sys\n"
            "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
            "socket.send_fds(s, [b'x'], [1]); print('given', flush=True); s.recv(1)\n"
        )
        done = await asyncio.wait_for(runner.run(python(giver, address), NOTHING), 30)
        assert (done.exit_code, done.stdout_tail) == (0, "given\n")
    finally:
        keeper.kill()
        await keeper.communicate()


KEEPER = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1]); listening.listen(); print("ready", flush=True)
connection, _ = listening.accept()
kept = socket.recv_fds(connection, 1, 1)
connection.send(b"k")
sys.stdin.read()
"""


async def test_progress_lines_are_read(runner):
    script = """
    echo 'posthouse: {"percent": 40, "step": "tag", "message": "half"}'
    echo 'posthouse: {"percent": 140}'
    echo 'posthouse: nonsense'
    printf 'posthouse: {"step": "end"}' >&2
    """
    output = RecordedOutput()
    await runner.run(shell(script, progress="lines"), NOTHING, on_progress=output.progress.append)
    assert set(output.progress) == {CommandProgress(40, "tag", "half"), CommandProgress(step="end")}


async def test_progress_is_not_read_unless_the_definition_says_so(runner):
    output = RecordedOutput()
    await runner.run(
        shell("""echo 'posthouse: {"percent": 4}'"""), NOTHING, on_progress=output.progress.append
    )
    assert output.progress == []


@pytest.mark.parametrize(
    "line",
    [
        b"posthouse: {}",
        b"posthouse: []",
        b'posthouse: {"percent": true}',
        b'posthouse: {"percent": -1}',
        b'posthouse: {"percent": NaN}',
        b'posthouse: {"step": 1}',
        b'posthouse: {"other": 1}',
        b' posthouse: {"percent": 1}',
        b'posthouse: {"message": "' + b"x" * 9000 + b'"}',
        b"posthouse: " + b"[" * 8000,
    ],
)
def test_a_wrong_progress_line_is_only_output(line):
    lines = ProgressLines()
    lines.feed(line + b"\n")
    assert lines.take() is None


def test_a_progress_line_may_come_in_pieces():
    lines = ProgressLines()
    for byte in b'x\nposthouse: {"percent": 5}\nmore':
        lines.feed(bytes([byte]))
    assert lines.take() == CommandProgress(5)
    assert lines.take() is None


async def test_the_last_line_may_be_a_json_result(runner):
    done = await runner.run(shell("""echo working; echo '{"count": 3}'; echo""", result="json"), NOTHING)
    assert done.result == {"count": 3}
    assert done.to_outcome() is None


async def test_work_without_its_promised_result_fails_and_is_not_repeated(runner):
    done = await runner.run(shell("echo oops", result="json"), NOTHING)
    assert done.outcome.action == "fail"
    assert "not JSON" in done.reason


SECRET = "hunter2-é-swordfish"


async def test_secrets_reach_the_command_and_nothing_that_it_writes(runner):
    output = RecordedOutput()
    code = (
        "import os, sys; s = os.environ['TOKEN']; print(len(s)); print(s); print(s[:9], end=''); sys.exit(s)"
    )
    done = await runner.run(
        python(code, secrets={"TOKEN": "api"}), NOTHING, secrets={"api": SECRET}, on_output=output.record
    )
    assert done.stdout_tail == f"{len(SECRET)}\n[secret]\nhunter2-é"
    assert done.stderr_tail == "[secret]\n"
    assert output.text == {"stdout": done.stdout_tail, "stderr": done.stderr_tail}
    assert SECRET not in repr(done)


def test_a_secret_that_comes_in_pieces_is_masked():
    masker = Masker([SECRET, "hunter2"])
    written = b"".join(masker.feed(bytes([byte])) for byte in f"a{SECRET}b hunter2 hunt".encode())
    assert written + masker.flush() == b"a[secret]b [secret] hunt"
