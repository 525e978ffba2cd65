"""A worker to be killed: run as a script. Its handler writes to the table ``effects``."""

import asyncio
from pathlib import Path

import posthouse

app = posthouse.App()


async def _effect(connection, name: str) -> None:
    await connection.execute("insert into effects (name) values (%s)", (name,))


async def _wait_unless(started: str, go: str) -> None:
    if not await asyncio.to_thread(Path(go).exists):
        await asyncio.to_thread(Path(started).touch)
        await asyncio.sleep(3600)


@app.job(max_attempts=5)
async def read_frames(job: posthouse.Job, started: str, go: str) -> int:
    """Five chunks; in the third it waits for a file, and is killed meanwhile."""
    total = 0
    for chunk in range(5):
        if chunk == 2:
            await _wait_unless(started, go)
        await job.step_commit(f"effect:{chunk}", _effect, f"chunk {chunk} by attempt {job.attempt}")
        total += await job.step(f"ocr:{chunk}", lambda chunk=chunk: chunk * 10)
    return total


if __name__ == "__main__":
    app.run_worker()
