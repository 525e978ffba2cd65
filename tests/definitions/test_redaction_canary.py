"""One job with secrets of every kind, which fails with them, logs them and prints them. None is shown."""

import json
import re
import signal

import pytest

from support import forkserver
from support.waiting import WAIT_SECONDS, eventually_sync

CANARIES = {
    "dropboxAccessToken": "canary-by-name-a71",
    "marked": "canary-by-schema-b72",
    "written": "canary-by-write-only-c73",
    "formatted": "canary-by-format-d74",
    "user": {"iban": "canary-by-path-e75"},
    "cards": [{"number": "canary-in-a-list-f76"}],
}
URL = "postgresql://shop:canary-in-a-url-g77@db/shop"
ANY = re.compile(r"canary-(by|in)-\w+")

APP = """
import logging
import sys
from typing import Annotated, Any

from pydantic import Field

import posthouse

app = posthouse.App()
Marked = Annotated[str, Field(json_schema_extra={"x-secret": True})]
WriteResult = Annotated[str, Field(json_schema_extra={"writeOnly": True})]
Formatted = Annotated[str, Field(json_schema_extra={"format": "password"})]


def tell(job, everything):
    job.log.warning("job.log: %s", everything)
    logging.getLogger("shop").warning("own logger: %s", everything)
    print("printed:", everything, flush=True)
    print("to stderr:", everything, file=sys.stderr, flush=True)
    try:
        raise KeyError(everything)
    except KeyError:
        job.log.exception("with a traceback")
        logging.getLogger("shop").exception("own with a traceback")


def fail(job, values):
    everything = " ".join(values)
    tell(job, everything)
    tell(job, repr(job.payload))
    if job.attempt == 2:
        return {"password": everything, "note": everything}
    raise ValueError(f"cannot do it with {everything}")


@app.job(retry=posthouse.Retry("10ms"), max_attempts=2, redact=["user.iban", "cards[].number"])
async def KIND_ASYNC(job: posthouse.Job, dropboxAccessToken: str, marked: Marked, written: WriteResult,
                     formatted: Formatted, user: dict[str, Any], cards: list[dict[str, Any]],
                     url: str) -> Any:
    await job.progress(50, step="half", message=f"with {marked}")
    return fail(job, [dropboxAccessToken, marked, written, formatted, user["iban"], cards[0]["number"], url])


@app.job(retry=posthouse.Retry("10ms"), max_attempts=2, redact=["user.iban", "cards[].number"])
def KIND_THREAD(job: posthouse.Job, dropboxAccessToken: str, marked: Marked, written: WriteResult,
                formatted: Formatted, user: dict[str, Any], cards: list[dict[str, Any]], url: str) -> Any:
    return fail(job, [dropboxAccessToken, marked, written, formatted, user["iban"], cards[0]["number"], url])


@app.job(retry=posthouse.Retry("10ms"), max_attempts=2, redact=["user.iban", "cards[].number"],
         runner="process")
def KIND_PROCESS(job: posthouse.Job, dropboxAccessToken: str, marked: Marked, written: WriteResult,
                 formatted: Formatted, user: dict[str, Any], cards: list[dict[str, Any]], url: str) -> Any:
    return fail(job, [dropboxAccessToken, marked, written, formatted, user["iban"], cards[0]["number"], url])
"""

PAYLOAD = {**CANARIES, "url": URL}


@pytest.fixture
def worker_output(tmp_path, database, db, posthouse_command):
    """Runs one job of a kind to its end; returns its id and all that the worker put out."""
    (tmp_path / "shop.py").write_text(APP)

    def run(kind):
        job = db.execute("select posthouse.enqueue(%s, %s)", (kind, json.dumps(PAYLOAD))).fetchone()[0]
        with (tmp_path / "output").open("w+") as output:
            worker = forkserver.start_python(
                ["-m", "posthouse", "worker", "--app", "shop:app", "--log-level", "debug"], folder=tmp_path,
                env={"PATH": "", "POSTHOUSE_DATABASE_URL": database, "POSTHOUSE_PROCESS_SLOTS": "1"},
                stdout=output, stderr=output,
            )  # fmt: skip
            try:
                eventually_sync(lambda: _ended(db, job), 60, "the end of the job")
            finally:
                worker.send_signal(signal.SIGTERM)
                worker.wait(WAIT_SECONDS)
            output.seek(0)
            return job, output.read()

    return run


def _ended(db, job):
    return db.execute(
        "select status from posthouse.jobs where id = %s and finished_at is not null", (job,)
    ).fetchone()


@pytest.mark.parametrize(
    "kind",
    ["KIND_ASYNC", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("KIND_THREAD", "KIND_PROCESS"))],
)
def test_no_secret_of_a_job_is_seen_anywhere(worker_output, posthouse_command, db, kind):
    job, output = worker_output(kind)
    sinks = {"the worker's output": output}
    for arguments in (
        ("jobs", "show", job), ("jobs", "list"), ("jobs", "attempts", job, "--traceback"),
        ("jobs", "why", job), ("jobs", "logs", job), ("definitions", "show", kind), ("definitions",),
        ("doctor",),
    ):  # fmt: skip
        for form in ((), ("--json",)):
            done = posthouse_command(*arguments, *form)
            sinks[" ".join(map(str, (*arguments, *form)))] = done.stdout + done.stderr
    for name, statement in {
        "attempts": "select error::text from posthouse.past_attempts",
        "errors": "select concat(last_error, error, progress_message) from posthouse.jobs",
        "log lines": "select to_jsonb(l)::text from posthouse.log_lines as l",
        "audit": "select to_jsonb(a)::text from posthouse.audit as a",
        "definitions": "select to_jsonb(d)::text from posthouse.definitions as d",
    }.items():
        sinks[name] = " ".join(text or "" for (text,) in db.execute(statement).fetchall())
    seen = {
        name: text[max(0, found.start() - 80) : found.end()]
        for name, text in sinks.items()
        if (found := ANY.search(text))
    }
    assert not seen
    # What is grepped is there at all.
    assert output.count("[redacted]") > 10
    assert "[redacted]" in sinks["attempts"]
    assert "cannot do it with" in sinks[f"jobs attempts {job} --traceback"]


def test_the_handler_and_the_owner_of_the_database_still_have_them(worker_output, db):
    job, _ = worker_output("KIND_THREAD")
    status, payload = db.execute(
        "select status, payload from posthouse.jobs where id = %s", (job,)
    ).fetchone()
    assert (status, payload) == ("succeeded", PAYLOAD)
