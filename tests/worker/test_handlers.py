"""Handlers: async and in threads, their arguments and their results."""

import asyncio
import math
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pydantic
import pytest

import posthouse
from posthouse import testing
from posthouse.errors import ConfigurationError, InvalidPayload
from support.waiting import eventually
from support.workers import attempt_outcomes, job_row, job_status, running_worker


class Address(pydantic.BaseModel):
    street: str
    number: int = 1


async def test_an_async_handler_runs_in_the_loop_of_the_worker(app):
    loops = []

    @app.job()
    async def look():
        loops.append(asyncio.get_running_loop())

    await look.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert loops == [asyncio.get_running_loop()]


async def test_a_plain_function_runs_in_a_thread(app):
    names = []

    @app.job()
    def look() -> str:
        names.append(threading.current_thread())
        return "seen"

    handle = await look.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert await handle.wait("60s") == "seen"
    assert names != [threading.current_thread()]


async def test_thread_handlers_run_beside_each_other(app):
    meeting = threading.Barrier(5, timeout=20)

    @app.job()
    def meet():
        meeting.wait()

    for _ in range(5):
        await meet.enqueue()
    assert await testing.drain(app) == {"succeeded": 5}


async def test_arguments_arrive_with_the_types_of_the_annotations(app):
    seen = {}

    @app.job()
    async def take(
        *,
        address: Address,
        at: datetime,
        day: date,
        wait: timedelta,
        key: UUID,
        price: Decimal,
        tags: set[str],
        maybe: int | None = None,
    ):
        seen.update(locals())

    key = uuid4()
    given = {
        "address": Address(street="Mill Lane"),
        "at": datetime(2024, 2, 29, 12, tzinfo=UTC),
        "day": date(2024, 2, 29),
        "wait": timedelta(minutes=90),
        "key": key,
        "price": Decimal("12.50"),
        "tags": {"a", "b"},
    }
    await take.enqueue(**given)
    assert await testing.drain(app) == {"succeeded": 1}
    assert {name: seen[name] for name in given} == given
    assert isinstance(seen["address"], Address)
    assert seen["maybe"] is None


async def test_an_argument_left_out_takes_its_default(app):
    seen = []

    @app.job()
    async def take(a: int, b: int = 5):
        seen.append((a, b))

    await take.enqueue(a=1)
    await take.enqueue(a=2, b=3)
    assert await testing.drain(app) == {"succeeded": 2}
    assert sorted(seen) == [(1, 5), (2, 3)]


@pytest.mark.parametrize("wrong", [{"a": "x"}, {}, {"a": 1, "extra": 2}])
async def test_arguments_that_the_handler_does_not_take_are_refused_at_enqueue(app, db, wrong):
    @app.job()
    async def take(a: int):
        pass

    with pytest.raises(InvalidPayload, match="invalid payload for take"):
        await take.enqueue(**wrong)
    assert db.execute("select count(*) from posthouse.jobs").fetchone() == (0,)


async def test_a_handler_with_double_star_takes_any_argument(app):
    seen = []

    @app.job()
    async def take(a: int, **rest):
        seen.append((a, rest))

    await take.enqueue(a=1, b=[2], c="3")
    assert await testing.drain(app) == {"succeeded": 1}
    assert seen == [(1, {"b": [2], "c": "3"})]


async def test_a_handler_of_only_the_job_takes_any_payload(app):
    seen = []

    @app.job()
    async def take(job: posthouse.Job):
        seen.append(job.payload)

    await take.enqueue(anything={"at": ["all"]})
    assert await testing.drain(app) == {"succeeded": 1}
    assert seen == [{"anything": {"at": ["all"]}}]


@pytest.mark.parametrize("size", [10, 5000])
async def test_a_payload_that_the_handler_cannot_read_is_a_dead_letter_with_its_payload_whole(app, db, size):
    ran = []

    @app.job()
    async def take(a: int):
        ran.append(a)

    payload = {"a": "no number", "b": "x" * size}
    handle = await app.client.enqueue("take", payload)
    good = await take.enqueue(a=1)
    assert await testing.drain(app) == {"dead_letter": 1, "succeeded": 1}
    job = job_row(db, handle.id)
    assert job["status"] == "dead_letter"
    assert job["payload"] == payload
    assert job["error"]["type"] == "InvalidPayload"
    assert "a: Input should be a valid integer" in job["error"]["message"]
    assert attempt_outcomes(db, handle.id) == [(1, "failed")]
    assert job_status(db, good.id) == "succeeded"
    assert ran == [1]


async def test_a_result_is_stored_as_json(app):
    @app.job()
    async def answer():
        return {
            "model": Address(street="Mill Lane"),
            "at": datetime(2024, 2, 29, tzinfo=UTC),
            "tuple": (1, 2.5, None, True),
        }

    handle = await answer.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert await handle.wait("60s") == {
        "model": {"street": "Mill Lane", "number": 1},
        "at": "2024-02-29T00:00:00Z",
        "tuple": [1, 2.5, None, True],
    }


def _deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "odd",
    [
        "a\x00b",
        {"key\x00": 1},
        "lone \ud800 surrogate",
        math.nan,
        [math.inf, -math.inf],
        {1, 2},
        _deep(10_000),
        "x" * 3_000_000,
        10**5000,
        int("9" * 4000),
        "\\u0000",
    ],
    ids=[
        "nul", "nul-key", "surrogate", "nan", "infinity", "set", "deep", "large",
        "huge-int", "big-int", "backslash-u0000",
    ],
)  # fmt: skip
async def test_an_odd_result_does_not_spoil_the_success_of_its_job(app, db, odd):
    @app.job()
    async def answer():
        return odd

    @app.job()
    async def plain():
        return "plain"

    handle = await answer.enqueue()
    neighbour = await plain.enqueue()
    assert await testing.drain(app) == {"succeeded": 2}
    assert job_row(db, handle.id)["result"] is not None
    assert job_row(db, neighbour.id)["result"] == "plain"


async def test_odd_characters_of_a_result_are_stored_escaped(app):
    @app.job()
    async def answer():
        return ["a\x00b", "lone \ud800", math.nan]

    handle = await answer.enqueue()
    await testing.drain(app)
    assert await handle.wait("60s") == ["a\\u0000b", "lone \\ud800", "nan"]


async def test_an_odd_error_message_is_stored_and_logged_escaped(app, db, caplog):
    @app.job(max_attempts=1)
    async def fall():
        raise ValueError("a\x00b \ud800 " + "x" * 100_000)

    handle = await fall.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert job_row(db, handle.id)["error"]["message"].startswith("a\\u0000b \\ud800 x")
    assert "ValueError: a\\u0000b \\ud800 x" in caplog.text


async def test_a_handler_sees_what_its_job_is_about(app):
    seen = {}

    @app.job(queue="mail")
    async def look(job: posthouse.Job):
        seen.update(
            kind=job.kind, queue=job.queue, tenant=job.tenant, attempt=job.attempt, subject=job.subject,
            max_attempts=job.max_attempts, priority=job.priority, correlation_id=job.correlation_id,
        )  # fmt: skip

    options = {"tenant": "acme", "subject": "call 7", "correlation_id": "run 1", "priority": "high"}
    await look.using(**options).enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert seen == {
        "kind": "look", "queue": "mail", "tenant": "acme", "attempt": 1, "subject": "call 7",
        "max_attempts": 3, "priority": 50, "correlation_id": "run 1",
    }  # fmt: skip


async def test_records_of_the_job_s_logger_carry_its_id(app, caplog):
    @app.job()
    async def speak(job: posthouse.Job):
        job.log.warning("hello")

    handle = await speak.enqueue()
    await testing.drain(app)
    (record,) = [item for item in caplog.records if item.getMessage() == "hello"]
    assert (record.job_id, record.kind, record.attempt) == (str(handle.id), "speak", 1)


async def test_the_log_line_of_a_failed_job_ends_with_its_page_in_the_console(app, caplog):
    @app.job(max_attempts=1)
    async def fail():
        raise ValueError("no luck")

    handle = await fail.enqueue()
    async with running_worker(app, public_url="https://jobs.example.com/") as worker:
        await eventually(lambda: worker.executor.finished == 1)
    (line,) = [item.getMessage() for item in caplog.records if "no luck" in item.getMessage()]
    assert line == (
        f"attempt 1 of 1 failed: ValueError: no luck https://jobs.example.com/console/jobs/{handle.id}"
    )


async def test_a_decorated_handler_can_still_be_called(app):
    @app.job()
    async def double(value: int) -> int:
        return 2 * value

    assert await double(4) == 8


async def test_a_handler_that_exits_does_not_take_the_worker_with_it(app):
    @app.job(max_attempts=1)
    async def leave():
        raise SystemExit(3)

    @app.job(max_attempts=1)
    def leave_thread():
        raise SystemExit(3)

    await leave.enqueue()
    await leave_thread.enqueue()
    assert await testing.drain(app) == {"dead_letter": 2}


async def test_jobs_of_an_unknown_kind_are_left_alone(app, db):
    @app.job()
    async def known():
        pass

    stranger = await app.client.enqueue("stranger", {})
    await known.enqueue()
    async with running_worker(app):
        await eventually(lambda: db.execute("select count(*) from posthouse.history").fetchone() == (1,))
    assert job_status(db, stranger.id) == "queued"


def test_two_jobs_of_one_name_are_refused(settings):
    app = posthouse.App(settings=settings)

    @app.job()
    async def same():
        pass

    with pytest.raises(ConfigurationError, match="the job kind 'same' is defined twice"):
        app.job("same")(lambda: None)


def test_a_type_that_json_cannot_carry_is_refused_at_definition(settings):
    app = posthouse.App(settings=settings)
    with pytest.raises(ConfigurationError, match="JSON cannot represent"):

        @app.job()
        async def take(lock: threading.Thread):
            pass


async def test_a_worker_without_jobs_says_so(app):
    with pytest.raises(ConfigurationError, match="has no job kinds to run"):
        await app.worker()
