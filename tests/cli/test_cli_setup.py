"""posthouse migrate, config, --version, --help, shell completion, and errors of set-up."""

import subprocess
import sys
from importlib.metadata import version
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import posthouse as posthouse_package


@pytest.fixture
def empty_database(server):
    name = f"posthouse_cli_empty_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as connection:
        drop = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        connection.execute(drop)
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield make_conninfo(server, dbname=name)
        connection.execute(drop)


def test_migrate_lists_what_it_applied_and_then_has_nothing_to_do(posthouse, empty_database):
    refused = posthouse("queues", POSTHOUSE_DATABASE_URL=empty_database)
    assert (refused.code, refused.out) == (1, "")
    assert "posthouse migrate" in refused.err

    first = posthouse("migrate", "--json", POSTHOUSE_DATABASE_URL=empty_database)
    assert first.code == 0, first.err
    numbers = [item["number"] for item in first.json["applied"]]
    assert numbers == list(range(1, first.json["version"] + 1))
    assert posthouse("migrate", "--json", POSTHOUSE_DATABASE_URL=empty_database).json["applied"] == []
    assert posthouse("queues", "--json", POSTHOUSE_DATABASE_URL=empty_database).json == []


def test_config_tells_where_each_setting_came_from_and_masks_secrets(offline):
    (offline.folder / "posthouse.toml").write_text("concurrency = 7\nlease_seconds = 40\n")
    env = {"POSTHOUSE_LEASE_SECONDS": "50s"}
    answer = offline("config", "--json", **env)
    assert answer.json["concurrency"] == {"value": 7, "source": "file"}
    assert answer.json["lease_seconds"] == {"value": 50.0, "source": "environment"}
    assert answer.json["poll_seconds"]["source"] == "default"
    assert answer.json["database_url"] == {"value": "********", "source": "environment"}
    assert "hunter2" not in answer.out
    plain = offline("config", **env).out
    assert "POSTHOUSE_CONCURRENCY" in plain
    assert "hunter2" not in plain


def test_a_mistyped_setting_gets_a_suggestion(offline):
    answer = offline("config", POSTHOUSE_CONCURENCY="3")
    assert answer.code == 1
    assert answer.err == "error: unknown setting POSTHOUSE_CONCURENCY; did you mean POSTHOUSE_CONCURRENCY?\n"


@pytest.mark.parametrize(
    "arguments",
    [["queues"], ["migrate"], ["enqueue", "mail"], ["keeper", "--once"], ["jobs", "list", "--json"]],
)
def test_an_unreachable_database_is_an_error_at_once(offline, arguments):
    answer = offline(*arguments)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: cannot connect to Postgres")
    assert "POSTHOUSE_DATABASE_URL" in answer.err
    assert answer.err.count("\n") == 1


def test_an_unknown_command_is_wrong_usage(offline):
    answer = offline("jbs")
    assert answer.code == 2
    assert answer.err == "error: No such command 'jbs'. Did you mean 'jobs'? See `posthouse --help`\n"


def test_the_version_is_that_of_the_package(offline):
    assert offline("--version").out.strip() == version("posthouse")


def test_bash_completes_commands(offline):
    command = offline.folder / "posthouse"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m posthouse "$@"\n')
    command.chmod(0o755)
    script = offline(_POSTHOUSE_COMPLETE="source_bash").out
    typed = f"COMP_WORDS=(posthouse jobs re) COMP_CWORD=2\n_posthouse_completion {command}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{typed}\necho ${{COMPREPLY[@]}}"], env=offline.env,
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["retry"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_complete_options_with_their_help(offline, shell):
    assert f"complete_{shell}" in offline(_POSTHOUSE_COMPLETE=f"source_{shell}").out
    typed = {"_TYPER_COMPLETE_ARGS": "posthouse jobs list --st", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    answer = offline(_POSTHOUSE_COMPLETE=f"complete_{shell}", **typed)
    assert "--status" in answer.out
    assert "--limit" not in answer.out


def test_help_lists_every_command_and_loads_nothing_heavy(offline):
    script = (
        "import sys; sys.argv = ['posthouse', '--help']\n"
        "from posthouse.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted({'psycopg', 'pydantic', 'posthouse.app'} & set(sys.modules)))\n"
    )
    answer = offline.python(script)
    assert answer.code == 0, answer.err
    for command in (
        "up", "worker", "keeper", "enqueue", "jobs", "queues", "workers", "limits", "tenants", "definitions",
        "doctor", "migrate", "config", "--version", "--install-completion", "bench",
    ):  # fmt: skip
        assert f" {command} " in answer.out
    assert answer.out.splitlines()[-1].split() == ["LOADED"]


def test_the_help_of_a_command_shows_an_example(offline):
    commands = ("up", "worker", "enqueue", "jobs list", "jobs retry", "doctor", "migrate", "config")
    script = (
        "from posthouse.cli.main import cli\n"
        f"for command in {commands!r}:\n"
        "    print('HELP OF', command)\n"
        "    cli([*command.split(), '--help'], standalone_mode=False)\n"
    )
    texts = offline.python(script).out.split("HELP OF ")[1:]
    assert [text.splitlines()[0] for text in texts] == list(commands)
    for command, text in zip(commands, texts, strict=True):
        assert "Example" in text
        assert f"posthouse {command.split()[0]}" in text.partition("Example")[2]


def test_every_public_name_is_there_when_it_is_asked_for():
    assert posthouse_package.__all__ == sorted(posthouse_package._HOMES)
    for name in posthouse_package.__all__:
        assert getattr(posthouse_package, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        posthouse_package.nonsense  # noqa: B018


def test_the_paragraphs_of_a_help_are_wrapped_to_the_terminal_only(offline):
    shown = offline("config", "--help", COLUMNS="80").out
    assert "posthouse.toml in the current folder, defaults." in shown
