"""What remote workers send. Items of batches are plain dicts that were checked: they come by the thousand."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from posthouse.server.schemas import Strict

MOST_JOBS = 1000
MOST_LINES = 5000
POLL_SECONDS = 60.0
LONGEST = 2**63

Text = Annotated[str, StringConstraints(max_length=512, pattern=r"^[^\x00]*$")]
Word = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^\x00]*$")]
LongText = Annotated[str, StringConstraints(max_length=100_000, pattern=r"^[^\x00]*$")]
Seconds = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]
LeaseSeconds = Annotated[float, Field(ge=0.2, le=86_400, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=-LONGEST, lt=LONGEST)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Object = dict[str, Any]
PartStatus = Literal["pending", "in_progress", "completed", "failed", "skipped"]
Event = Literal["fail", "exhaust", "cancel", "retry", "snooze", "release", "rescue"]


class OfWorker(Strict):
    worker_id: UUID = Field(description="As it was registered.")


class Registration(Strict):
    """A worker that starts. With the admin secret, or the key of an admin, it is given a key of its own."""

    worker_id: UUID | None = Field(
        default=None, description="Made by the worker, so that it can be repeated."
    )
    name: Text = ""
    hostname: Text = ""
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0
    version: Text = ""
    queues: list[Word] = Field(default_factory=list, max_length=1000)
    kinds: list[Word] = Field(default_factory=list, max_length=10_000)
    concurrency: Annotated[int, Field(ge=1, lt=2**31)] = 1
    capabilities: Object = Field(default_factory=dict)
    offers: list[Word] = Field(default_factory=list, max_length=1000)
    metadata: Object = Field(default_factory=dict)
    definitions: list[Object] = Field(default_factory=list, max_length=10_000)
    limits: list[Object] = Field(default_factory=list, max_length=10_000)
    triggers: list[Object] = Field(default_factory=list, max_length=10_000)
    tenant: Text | None = Field(default=None, description="For admins: the tenant that the new key is for.")


class Held(TypedDict):
    id: UUID
    token: UUID


class Beat(OfWorker):
    jobs: list[Held] = Field(default_factory=list, max_length=100_000)
    lease_seconds: LeaseSeconds = 30.0


class Serving(OfWorker):
    queues: list[Word] = Field(max_length=1000)
    kinds: list[Word] = Field(max_length=10_000)


class Wanted(Strict):
    queues: list[Word] = Field(max_length=1000)
    kinds: list[Word] = Field(max_length=10_000)


class Waiting(OfWorker):
    queues: list[Word] = Field(default_factory=list, max_length=1000)
    cursor: Text = ""
    wait_seconds: Annotated[float, Field(ge=0, le=POLL_SECONDS)] = 25.0


class Claiming(OfWorker):
    """`token` is made by the worker, new for each claim. `unanswered`: those of claims whose answer it
    did not hear; what they took is among `recovered`.
    """

    queues: list[Word] = Field(max_length=1000)
    kinds: list[Word] = Field(max_length=10_000)
    token: UUID | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_JOBS)] = 1
    lease_seconds: LeaseSeconds = 30.0
    wait_seconds: Annotated[float, Field(ge=0, le=POLL_SECONDS)] = 0.0
    offers: list[Word] = Field(default_factory=list, max_length=1000)
    unanswered: list[UUID] = Field(default_factory=list, max_length=100)
    hungry: bool = Field(default=False, description="Whether to be told when there is work; see notices.")
    payload_as_text: bool = Field(
        default=False, description="Payloads as texts that hold JSON, number for number."
    )
    careful: bool = True
    marks: list[tuple[Number, Number]] = Field(default_factory=list, max_length=10_000)
    served: dict[Word, Seconds] = Field(default_factory=dict)
    patience_seconds: Seconds = 20.0


class Completion(TypedDict):
    id: UUID
    token: UUID
    result: NotRequired[Any]
    followups: NotRequired[list[Object]]
    output: NotRequired[Object | None]


class Completions(OfWorker):
    jobs: list[Completion] = Field(max_length=MOST_JOBS)


class Ending(TypedDict):
    """An attempt that did not succeed, with what is to follow from it as the worker decided."""

    id: UUID
    token: UUID
    event: Event
    outcome: NotRequired[Word]
    delay: NotRequired[Seconds | None]
    error: NotRequired[Object | None]
    output: NotRequired[Object | None]


class Endings(OfWorker):
    jobs: list[Ending] = Field(max_length=MOST_JOBS)


class FailureOf(TypedDict):
    """An attempt that failed; the server decides by the kind's retry policy what follows."""

    id: UUID
    token: UUID
    error: NotRequired[Object | str]
    retry: NotRequired[bool]


class Failures(OfWorker):
    jobs: list[FailureOf] = Field(max_length=MOST_JOBS)


class PartChange(TypedDict):
    name: Name
    status: NotRequired[PartStatus | None]
    restart: NotRequired[bool | None]
    percent: NotRequired[Percent | None]
    done: NotRequired[Annotated[int, Field(ge=0, lt=LONGEST)] | None]
    total: NotRequired[Annotated[int, Field(ge=0, lt=LONGEST)] | None]
    weight: NotRequired[Annotated[float, Field(ge=0, le=1e9)] | None]
    message: NotRequired[LongText | None]
    error: NotRequired[LongText | None]
    result: NotRequired[Any]


class ProgressOf(TypedDict):
    id: UUID
    token: UUID
    percent: NotRequired[Percent | None]
    step: NotRequired[LongText | None]
    message: NotRequired[LongText | None]
    derive: NotRequired[bool | None]
    parts: NotRequired[list[PartChange]]


class Reports(OfWorker):
    jobs: list[ProgressOf] = Field(max_length=MOST_JOBS)
    lease_seconds: LeaseSeconds = 30.0


class Line(TypedDict):
    id: UUID
    token: UUID
    text: LongText
    age: NotRequired[Seconds]
    stream: NotRequired[Literal["stdout", "stderr", "log"]]
    level: NotRequired[Text | None]


class LogLines(OfWorker):
    lines: list[Line] = Field(max_length=MOST_LINES)
    lease_seconds: LeaseSeconds = 30.0


class Step(Strict):
    """A finished step of a job."""

    token: UUID
    name: Name
    result: Any = None
    seconds: Seconds | None = None
    worker_id: UUID | None = None
    lease_seconds: LeaseSeconds = 30.0


class Token(Strict):
    token: UUID
    lease_seconds: LeaseSeconds = 30.0


class OneCompletion(Token):
    result: Any = None
    followups: list[Object] = Field(default_factory=list, max_length=1000)


class OneFailure(Token):
    error: Object | str = "it did not say why"
    retry: bool = Field(True, description="Whether another attempt may help.")


class OneReport(Token):
    percent: Percent | None = None
    step: LongText | None = None
    message: LongText | None = None
    parts: list[PartChange] = Field(default_factory=list, max_length=1000)


class OneLog(Token):
    lines: list[LongText] = Field(max_length=MOST_LINES)
    stream: Literal["stdout", "stderr", "log"] = "log"
    level: Text | None = None
