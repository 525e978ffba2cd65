"""Commands from the command line, start to end, as an operator uses them."""

import json
import re
import signal

from support.command_jobs import PRINT_ARGV, python, shell
from support.waiting import WAIT_SECONDS, eventually_sync


def test_define_look_run_and_see_the_output(db, program):
    argv = python(PRINT_ARGV, "--path", "{payload.path}", ["--force", "{if payload.force}"])
    made = program("definitions", "create", "list", "--timeout", "1m", "--command",
                   json.dumps({"argv": argv, "result": "json"}))  # fmt: skip
    assert (made.returncode, made.stdout) == (0, "list created\n")

    payload = json.dumps({"path": "a b", "force": True})
    seen = program("definitions", "preview", "list", "--payload", payload, "--json")
    assert json.loads(seen.stdout)["argv"] == [
        *python(PRINT_ARGV)[:-1], PRINT_ARGV, "--path", "a b", "--force",
    ]  # fmt: skip
    assert program("definitions", "preview", "list", "--payload", payload).stdout.endswith(
        "--path 'a b' --force\n"
    )

    worker = program.start("worker", "--commands")
    done = program("enqueue", "list", "--payload", payload, "--wait", "--timeout", "30s")
    job, result = done.stdout.split("\n", 1)
    assert json.loads(result) == ["--path", "a b", "--force"]

    shown = program("jobs", "attempts", job, "--output").stdout
    assert "exit" in shown
    assert "attempt 1.1 stdout" in shown
    assert '["--path", "a b", "--force"]' in shown
    [attempt] = json.loads(program("jobs", "attempts", job, "--json").stdout)
    assert (attempt["exit_code"], attempt["signal"]) == (0, None)
    whole = program("jobs", "show", job).stdout
    assert re.search(r'^stdout +\["--path", "a b", "--force"\]$', whole, re.MULTILINE)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(WAIT_SECONDS) == 0


def test_a_preview_says_what_is_wrong_with_a_payload(program):
    program("definitions", "create", "list", "--command", '["ls", "{payload.path}"]')
    refused = program("definitions", "preview", "list", "--payload", '{"path": "-rf"}')
    assert refused.returncode == 1
    assert "starts with '-'" in refused.stderr
    checked = program("definitions", "check", "list", "--payload", '{"path": "-rf"}')
    assert (checked.returncode, "starts with '-'" in checked.stderr) == (1, True)
    missing = program("definitions", "preview", "other")
    assert "definition 'other' does not exist" in missing.stderr


def test_a_command_that_is_no_json_is_wrong_usage(program):
    refused = program("definitions", "create", "list", "--command", "[ls]")
    assert (refused.returncode, "--command is not valid JSON" in refused.stderr) == (2, True)


def test_the_output_is_followed_while_it_runs(db, program, tmp_path):
    go = tmp_path / "go"
    argv = shell('echo one; until [ -e "$1" ]; do sleep 0.01; done; echo two', "{payload.go}")
    program("definitions", "create", "talk", "--command", json.dumps(argv))
    program.start("worker", "--commands")
    job = program("enqueue", "talk", "--payload", json.dumps({"go": str(go)})).stdout.strip()
    follower = program.start("jobs", "logs", job, "--follow", "--json")
    assert json.loads(follower.stdout.readline())["text"] == "one"
    go.touch()
    assert json.loads(follower.stdout.readline())["text"] == "two"
    assert follower.wait(WAIT_SECONDS) == 0


def test_up_runs_commands_when_the_setting_says_so(db, program):
    program("definitions", "create", "list", "--command", '["true"]')
    program.start("up", "--no-demo", "--port", "0", POSTHOUSE_COMMANDS="true")
    [job] = db.execute("select posthouse.enqueue('list')").fetchone()
    eventually_sync(
        lambda: (
            db.execute("select status from posthouse.jobs where id = %s", (job,)).fetchone()[0] == "succeeded"
        ),
        what="the job's end",
    )


def test_what_a_program_wrote_does_not_command_the_terminal(program):
    argv = shell("printf '\\033[31mred'")
    program("definitions", "create", "red", "--command", json.dumps(argv))
    program.start("worker", "--commands")
    job = program("enqueue", "red", "--wait", "--timeout", "30s").stdout.split("\n", 1)[0]
    assert "\\x1b[31mred" in program("jobs", "attempts", job, "--output").stdout
