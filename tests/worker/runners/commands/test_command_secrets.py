"""Secrets: named in the definition, known to the worker, and visible only to the command."""

import json
import logging

import pytest

from posthouse.commands import CommandSpec
from posthouse.errors import InvalidCommand
from posthouse.settings import load_settings
from support.command_jobs import of_attempts, shell
from support.waiting import eventually
from support.workers import job_row, job_status, running_worker

CANARY = "canary-5b1f0c"
LEAK = """
echo $KEY; echo $KEY >&2
echo posthouse: '{"step": "'$KEY'", "message": "'$1'"}'
echo "the number is $1"; echo "$1" >&2; exit 65
"""


async def test_a_secret_comes_from_the_workers_environment(app, client, define, monkeypatch):
    monkeypatch.setenv("POSTHOUSE_SECRET_DROPBOX_TOKEN", CANARY)
    define("count", shell("echo ${#KEY}"), secrets={"KEY": "dropbox-token"}, result="json")
    async with running_worker(app, commands=True):
        assert await client.wait((await client.enqueue("count")).id, 20) == len(CANARY)


async def test_or_from_a_file_and_a_new_value_counts_at_once(app, client, define, tmp_path):
    (tmp_path / "dropbox-token").write_text(f"{CANARY}\n")
    define("count", shell("echo ${#KEY}"), secrets={"KEY": "dropbox-token"}, result="json")
    async with running_worker(app, commands=True, secrets_dir=str(tmp_path)):
        assert await client.wait((await client.enqueue("count")).id, 20) == len(CANARY)
        (tmp_path / "dropbox-token").write_text("four")
        assert await client.wait((await client.enqueue("count")).id, 20) == 4


async def test_a_missing_secret_is_named_and_the_job_not_retried(app, client, db, define):
    define("count", shell("true"), secrets={"KEY": "dropbox-token"})
    async with running_worker(app, commands=True):
        job = await client.enqueue("count")
        await eventually(lambda: job_status(db, job.id) == "failed", what="the failure")
    assert (
        "dropbox-token does not exist on this worker: set POSTHOUSE_SECRET_"
        in job_row(db, job.id)["last_error"]
    )
    assert of_attempts(db, job.id, "outcome", "error_type") == [("failed", "CommandStartError")]


@pytest.mark.parametrize("content", [b"\xff\xfe", None], ids=["not valid UTF-8", "a folder"])
async def test_an_unreadable_secret_is_named_too(app, db, define, tmp_path, content):
    key_path = tmp_path / "key"
    key_path.mkdir() if content is None else key_path.write_bytes(content)
    define("count", shell("true"), secrets={"KEY": "key"})
    [job] = db.execute("select posthouse.enqueue('count')").fetchone()
    async with running_worker(app, commands=True, secrets_dir=str(tmp_path)):
        await eventually(lambda: job_status(db, job) == "failed", what="the failure")
    assert "cannot read the secret key" in job_row(db, job)["last_error"]


def everything(db):
    """All rows of all tables, as text."""
    tables = db.execute(
        "select format('posthouse.%I', relname) from pg_class "
        "where relnamespace = 'posthouse'::regnamespace and relkind = 'r'"
    ).fetchall()
    rows = [db.execute(f"select t::text from {table} as t").fetchall() for (table,) in tables]
    return "\n".join(text for found in rows for (text,) in found)


async def test_neither_secrets_nor_marked_values_reach_any_sink(app, db, define, caplog, program):
    caplog.set_level(logging.DEBUG)
    (program.folder / "api").write_text(CANARY)
    marked = "DE02120300000000202051"
    argv = shell(LEAK, "{payload.iban}")
    define("leak", argv, secrets={"KEY": "api"}, progress="lines", fields={"redact": ["iban"]})
    [job] = db.execute("select posthouse.enqueue('leak', %s)", (json.dumps({"iban": marked}),)).fetchone()
    async with running_worker(app, commands=True, secrets_dir=str(program.folder)):
        await eventually(lambda: job_status(db, job) == "failed", what="the failure")
    stored = everything(db)
    assert CANARY not in stored
    assert stored.count(marked) == 1, "the payload itself, for a retry"
    assert "[secret]" in stored
    shown = [
        program("jobs", *words).stdout
        for words in (("attempts", job, "--output"), ("show", job), ("logs", job))
    ]
    assert all(shown)
    for text in (*shown, caplog.text):
        assert CANARY not in text
        assert marked not in text


def test_a_definition_holds_names_only():
    for wrong in ("../etc/passwd", "a b", "", "x" * 129):
        with pytest.raises(InvalidCommand, match="the name of a secret"):
            CommandSpec(argv=["true"], secrets={"KEY": wrong})


def test_a_secret_is_not_inherited_past_the_masks():
    with pytest.raises(InvalidCommand, match="put it into secrets"):
        CommandSpec(argv=["true"], inherit_env=["POSTHOUSE_SECRET_API"])


@pytest.mark.parametrize("name", ["POSTHOUSE_DATABASE_URL", "POSTHOUSE_REMOTE_KEY", "POSTHOUSE_ADMIN_SECRET"])
def test_a_command_cannot_inherit_a_setting_of_its_worker(name):
    with pytest.raises(InvalidCommand, match=f"inherit_env: {name} is a setting of Posthouse"):
        CommandSpec(argv=["true"], inherit_env=["PATH", name])


def test_secrets_are_no_settings(tmp_path):
    env = {"POSTHOUSE_SECRET_API": CANARY, "POSTHOUSE_SECRETS_DIR": "/run/secrets"}
    settings = load_settings(env=env, directory=tmp_path)
    assert settings.secrets_dir == "/run/secrets"
    assert CANARY not in str(settings)
