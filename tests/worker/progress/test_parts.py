"""Named parts: a status and a percentage each, kept over attempts, and the job's percentage made of them."""

import pytest

import posthouse
from posthouse import testing
from posthouse.errors import InvalidReport
from support.workers import job_row

AT_ONCE = posthouse.Retry(0, 0, 0, 0)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_parts_tell_how_they_went_and_the_job_is_as_far_as_they_are(app, db, parts, in_thread):
    async def transcode_async(job: posthouse.Job):
        high, middle, low, odd = await job.parts(
            ["1080p", "720p", "480p", "4k"], weights={"1080p": 2}, totals={"480p": 40}
        )
        await high.start()
        await high.progress(50, message="frame 10")
        await high.complete({"segments": 3})
        await middle.start()
        await middle.fail(ValueError("no codec"))
        await low.advance(10)
        await odd.skip("source is 1080p")
        raise posthouse.Fail("one part failed")

    def transcode_thread(job: posthouse.Job):
        high, middle, low, odd = job.parts(
            ["1080p", "720p", "480p", "4k"], weights={"1080p": 2}, totals={"480p": 40}
        )
        high.start()
        high.progress(50, message="frame 10")
        high.complete({"segments": 3})
        middle.start()
        middle.fail(ValueError("no codec"))
        low.advance(10)
        odd.skip("source is 1080p")
        raise posthouse.Fail("one part failed")

    handle = await app.job("transcode")(transcode_thread if in_thread else transcode_async).enqueue()
    assert await testing.drain(app) == {"failed": 1}
    found = parts(handle.id)
    assert list(found) == ["1080p", "720p", "480p", "4k"]
    assert {name: part["status"] for name, part in found.items()} == {
        "1080p": "completed", "720p": "failed", "480p": "in_progress", "4k": "skipped",
    }  # fmt: skip
    assert (found["1080p"]["percent"], found["1080p"]["result"]) == (100, {"segments": 3})
    assert (found["720p"]["percent"], found["720p"]["error"]) == (0, "ValueError: no codec")
    assert (found["480p"]["percent"], found["480p"]["done"], found["480p"]["total"]) == (25, 10, 40)
    assert found["4k"]["message"] == "source is 1080p"
    assert found["1080p"]["started_at"] <= found["1080p"]["finished_at"]
    assert found["480p"]["finished_at"] is None
    assert job_row(db, handle.id)["progress_percent"] == pytest.approx((2 * 100 + 0 + 25) / 4)


async def test_a_percentage_of_the_handlers_own_goes_before_that_of_its_parts(app, db):
    @app.job()
    async def transcode(job: posthouse.Job):
        await job.progress(5)
        await job.part("720p").complete()
        raise posthouse.Fail("stopped")

    handle = await transcode.enqueue()
    assert await testing.drain(app) == {"failed": 1}
    assert job_row(db, handle.id)["progress_percent"] == 5


@pytest.mark.parametrize("in_thread", [False, True])
async def test_as_a_context_a_part_starts_completes_and_fails_by_itself(app, parts, in_thread):
    async def transcode_async(job: posthouse.Job):
        async with job.part("good") as part:
            await part.progress(10)
        async with job.part("skipped") as part:
            await part.skip("why")
        async with job.part("bad"):
            raise ValueError("no codec")

    def transcode_thread(job: posthouse.Job):
        with job.part("good") as part:
            part.progress(10)
        with job.part("skipped") as part:
            part.skip("why")
        with job.part("bad"):
            raise ValueError("no codec")

    handler = transcode_thread if in_thread else transcode_async
    handle = await app.job("transcode", max_attempts=1)(handler).enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    found = parts(handle.id)
    assert [part["status"] for part in found.values()] == ["completed", "skipped", "failed"]
    assert found["bad"]["error"] == "ValueError: no codec"


@pytest.mark.parametrize("keep", [True, False])
async def test_the_next_attempt_sees_what_is_left_to_do_unless_told_to_start_anew(app, db, parts, keep):
    seen = []

    @app.job(retry=AT_ONCE, keep_progress=keep)
    async def transcode(job: posthouse.Job):
        found = await job.parts(["1080p", "720p"])
        seen.append([(part.name, part.status, part.result) for part in found])
        for part in found:
            if part.ended:
                continue
            await part.start()
            if part.name == "720p" and job.attempt == 1:
                raise ValueError
            await part.complete({"by": job.attempt})

    handle = await transcode.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    nothing = [("1080p", "pending", None), ("720p", "pending", None)]
    if keep:
        assert seen == [nothing, [("1080p", "completed", {"by": 1}), ("720p", "in_progress", None)]]
    else:
        assert seen == [nothing, nothing]
    by = {name: (part["result"]["by"], part["attempt"]) for name, part in parts(handle.id).items()}
    assert by == {"1080p": (1, 1) if keep else (2, 2), "720p": (2, 2)}
    assert job_row(db, handle.id)["progress_percent"] == 100


@pytest.mark.parametrize("keep", [True, False])
async def test_progress_of_a_job_that_waits_for_its_retry_is_kept_or_reset(app, db, keep):
    @app.job(retry=posthouse.Retry("1h"), keep_progress=keep)
    async def count(job: posthouse.Job):
        await job.progress(60, step="half", message="way")
        raise ValueError

    handle = await count.enqueue()
    assert await testing.drain(app) == {}
    seen = job_row(db, handle.id)
    expected = (60, "half", "way") if keep else (None, None, None)
    assert (seen["progress_percent"], seen["current_step"], seen["progress_message"]) == expected


async def test_in_a_batch_each_job_has_parts_and_steps_of_its_own(app, parts, steps):
    @app.job(batch=3)
    async def many(jobs: list[posthouse.Job]):
        for number, job in enumerate(jobs):
            await job.part(f"part {number}").complete()
            await job.step("same name", lambda number=number: number)

    requests = [posthouse.Request(kind="many", payload={}) for _ in range(3)]
    handles = await app.client.enqueue_many(requests)
    assert await testing.drain(app) == {"succeeded": 3}
    found = [list(parts(handle.id)) for handle in handles]
    assert sorted(name for names in found for name in names) == ["part 0", "part 1", "part 2"]
    assert sorted(steps(handle.id)[0][1] for handle in handles) == [0, 1, 2]


async def test_what_cannot_be_a_part_is_refused_with_a_reason(app):
    @app.job()
    async def wrong(job: posthouse.Job):
        for name in ("", "  ", 7, "x" * 201):
            with pytest.raises(InvalidReport, match="name of a part"):
                job.part(name)
        with pytest.raises(InvalidReport, match="total must be an integer"):
            job.part("a", total=-1)
        with pytest.raises(InvalidReport, match="weight must be a number"):
            job.part("a", weight=-1)
        with pytest.raises(InvalidReport, match="result of part 'a' is larger than 65,536 bytes"):
            await job.part("a").complete("x" * 70_000)
        with pytest.raises(InvalidReport, match="done must be an integer"):
            await job.part("a").progress(done=1.5)

    await testing.run(wrong)


async def test_run_inline_knows_parts_and_steps_without_a_database():
    app = posthouse.App()

    @app.job()
    async def transcode(job: posthouse.Job):
        await job.part("720p").complete({"n": 1})
        await job.step("once", dict, a=1)
        (part,) = await job.parts(["720p"])
        job.log.info("hello")
        job.emit_output("stdout", "hello\n")
        return [part.status, await job.steps_done(), await job.step("once", dict)]

    assert await testing.run(transcode) == ["completed", ["once"], {"a": 1}]
