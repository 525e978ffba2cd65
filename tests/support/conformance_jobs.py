"""Handlers of the conformance suite, where another process can import them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from uuid import UUID

import posthouse

app = posthouse.App()
NOW = posthouse.Retry(0, 0, 0)


def work_here() -> None:
    """A worker in this process, of what needs no others."""
    for kind in [kind for kind, item in app.definitions.items() if item.runner == "process"]:
        del app.definitions[kind]
    app.run_worker()


def touch(path: str, text: str = "") -> None:
    with Path(path).open("a") as file:
        file.write(f"{text or os.getpid()}\n")


def there(path: str) -> bool:
    return Path(path).exists()


@app.job()
async def add(a: int, b: int) -> int:
    return a + b


@app.job()
def add_in_thread(a: int, b: int) -> int:
    return a + b


@app.job()
async def pile(job: posthouse.Job, size: int) -> str:
    """As large a result as there may be, and follow-ups as large."""
    for _ in range(2):
        job.enqueue("unserved.kind", {"heap": "h" * size}, options={"queue": "unserved"})
    return "r" * size


@app.job(runner="process")
def add_in_process(job: posthouse.Job, a: int, b: int) -> int:
    job.progress(50, message="adding")
    job.log.info("adding in a process")
    return job.step("sum", lambda: a + b)


@app.job(batch=10)
async def add_many(jobs: list[posthouse.Job]) -> list[object]:
    return [
        posthouse.Fail("no b") if "b" not in job.payload else job.payload["a"] + job.payload["b"]
        for job in jobs
    ]


@app.job(batch=10)
async def count_batch(jobs: list[posthouse.Job]) -> list[int]:
    return [len(jobs)] * len(jobs)


@app.job(retry=NOW)
async def flaky(job: posthouse.Job) -> str:
    if job.attempt == 1:
        raise ValueError("at first it does not work")
    return f"attempt {job.attempt} after {job.last_error}"


@app.job()
async def hopeless() -> None:
    raise posthouse.Fail("never works")


@app.job(retry=NOW, max_attempts=2)
async def exhausting() -> None:
    raise OSError("out of luck")


@app.job()
async def sleepy(job: posthouse.Job) -> posthouse.Snooze | int:
    return posthouse.Snooze(0) if job.snoozes < 2 else job.snoozes


@app.job()
async def gives_up() -> posthouse.Cancel:
    return posthouse.Cancel("nothing to do")


@app.job(max_attempts=5)
async def wait(started: str, until: str) -> str:
    touch(started)
    while not there(until):
        await asyncio.sleep(0.01)
    return "released"


@app.job(timeout="300ms", max_attempts=1)
async def overdue() -> None:
    await asyncio.sleep(60)


@app.job(retry=NOW)
async def resuming(job: posthouse.Job) -> dict[str, object]:
    """Its second attempt finds what the first one has done."""
    low, high = await job.parts(["low", "high"], totals={"low": 4})
    seen = [low.status, high.status]
    if not low.ended:
        async with low:
            await low.progress(done=2)
    value = await job.step("once", lambda: {"made in attempt": job.attempt})
    if job.attempt == 1:
        await high.start()
        await job.progress(40, step="half way")
        raise ValueError("stopped half way")
    await high.complete({"height": 1080})
    return {"seen": seen, "kept": value, "steps": await job.steps_done()}


@app.job()
def talking(job: posthouse.Job) -> None:
    job.log.info("hello %s", "there")
    job.emit_output("stdout", "one\ntwo\n")
    job.progress(30, step="talking", message="still here")


@app.job()
async def parent(job: posthouse.Job, children: int) -> list[str]:
    return [str(job.enqueue(add, a=number, b=1)) for number in range(children)]


@app.job(retry=NOW, max_attempts=2)
async def barren_parent(job: posthouse.Job) -> None:
    job.enqueue(add, a=1, b=1)
    raise ValueError("no completion, no children")


@app.job(max_attempts=5)
async def deprived(job: posthouse.Job, started: str, lost_marker: str) -> None:
    """Another gets its job; it hears of that when it next reports."""
    if job.attempt > 1:
        return
    touch(started)
    while True:
        try:
            await job.progress(10)
            await asyncio.sleep(0.05)
        except (posthouse.LeaseLost, asyncio.CancelledError):
            touch(lost_marker, "lost")
            raise


@app.job(max_attempts=1, redact=["user.iban"])
async def indiscreet(job: posthouse.Job, user: dict[str, str]) -> None:
    job.log.info("paying from %s", user["iban"])
    await job.progress(5, message=f"paying from {user['iban']}")
    raise ValueError(f"cannot pay from {user['iban']}")


@app.job(max_attempts=1)
async def committing(job: posthouse.Job) -> None:
    async with job.commit() as connection:
        await connection.execute("select 1")


@app.job(max_attempts=1)
def committing_in_thread(job: posthouse.Job) -> None:
    with job.step_commit("charge") as connection:
        connection.execute("select 1")


@app.job(max_attempts=1, runner="process")
def committing_in_process(job: posthouse.Job) -> None:
    with job.commit() as connection:
        connection.execute("select 1")


@app.job(max_attempts=1)
async def enqueueing() -> None:
    await add.enqueue(a=1, b=2)


@app.job(max_attempts=20, retry=NOW)
async def mark(job: posthouse.Job, folder: str, seconds: float = 0) -> str:
    """Leaves a mark for each run."""
    touch(f"{folder}/{job.id}", f"{job.attempt}")
    await asyncio.sleep(seconds)
    return str(job.id)


@app.job()
async def about(job: posthouse.Job) -> dict[str, object]:
    return {
        "kind": job.kind, "queue": job.queue, "tenant": job.tenant, "attempt": job.attempt,
        "max_attempts": job.max_attempts, "correlation_id": job.correlation_id, "subject": job.subject,
        "priority": job.priority, "payload": job.payload, "queued": job.queued_at.isoformat(),
        "due": job.scheduled_for.isoformat(), "started": job.started_at.isoformat(),
    }  # fmt: skip


@app.job()
def about_in_thread(job: posthouse.Job) -> dict[str, object]:
    return _times(job)


@app.job(runner="process")
def about_in_process(job: posthouse.Job) -> dict[str, object]:
    return _times(job)


def _times(job: posthouse.Job) -> dict[str, object]:
    """The times that a job's age and its wait are computed from."""
    return {
        "queued": job.queued_at.isoformat(), "due": job.scheduled_for.isoformat(),
        "started": job.started_at.isoformat(),
    }  # fmt: skip


@app.job()
async def snoozing() -> object:
    return posthouse.Snooze("1h", deadline="3h")


@app.job(runner="process")
def snoozing_in_process() -> object:
    return posthouse.Snooze("1h", deadline="3h")


@app.job(max_attempts=1)
async def keeping(job: posthouse.Job, folder: str | None = None) -> object:
    if folder is not None:
        await job.upload(folder, "hls.tar.gz")
    return await job.upload(b"from bytes", "note.txt")


@app.job(max_attempts=1)
def fetching(job: posthouse.Job, of: str, into: str) -> None:
    job.download("note.txt", f"{into}/note.txt", of=UUID(of))
    job.download("hls.tar.gz", f"{into}/hls", of=UUID(of), extract=True)


@app.job(max_attempts=1)
def reading(job: posthouse.Job, into: str) -> int:
    job.download("source.bin", into)
    return Path(into).stat().st_size


@app.job(remote=False)
async def beside_the_database(job: posthouse.Job) -> None:
    async with job.commit() as connection:
        await connection.execute("select 1")


@app.job(max_attempts=1, runner="process")
def keeping_in_process(job: posthouse.Job) -> object:
    return job.upload(b"abc", "abc")
