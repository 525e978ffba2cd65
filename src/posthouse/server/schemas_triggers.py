"""What requests about triggers and events are like."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field

from posthouse.server.moments import Moment
from posthouse.server.schemas import Name, Priority, Seconds, Strict

Label = Annotated[str, Field(max_length=200)]
Jitter = Annotated[float, Field(ge=0, le=86400)]


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError("null is no value for it: leave it out")
    return value


Given = AfterValidator(_given)


class TriggerChanges(Strict):
    """The fields that change; the others stay. ``queue`` and ``priority`` may be null: the definition's."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"cron_expr": "0 3 * * *"}]})

    label: Label | None = None
    enabled: bool | None = None
    event_name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    cron_expr: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    timezone: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    definition_key: Name | None = None
    payload_template: dict[str, Any] | None = None
    dedupe_window_seconds: Seconds | None = None
    queue: Name | None = None
    priority: Priority | None = None
    gap: Literal["next", "skip"] | None = None
    fold: Literal["once", "twice"] | None = None
    missed: Literal["skip", "once", "catch_up"] | None = None
    catch_up_limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    overlap: Literal["allow", "skip", "queue"] | None = None
    jitter_seconds: Jitter | None = None

    def fields(self) -> dict[str, Any]:
        """Those that were given. Null takes back what a trigger may do without, and is nothing elsewhere."""
        given = self.model_dump(exclude_unset=True)
        return {
            name: value for name, value in given.items() if value is not None or name in {"queue", "priority"}
        }


class NewTrigger(TriggerChanges):
    """A trigger. One of type event needs event_name, one of type schedule cron_expr; both definition_key."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "label": "Nightly sync",
                    "trigger_type": "schedule",
                    "cron_expr": "0 2 * * *",
                    "timezone": "America/New_York",
                    "definition_key": "sync",
                    "payload_template": {"path": "/"},
                },
                {
                    "label": "Sync on change",
                    "trigger_type": "event",
                    "event_name": "folder.updated",
                    "definition_key": "sync",
                    "payload_template": {"path": "{{event.path}}"},
                    "dedupe_window_seconds": 120,
                },
            ]
        },
    )

    trigger_type: Literal["event", "schedule"]
    definition_key: Annotated[Name, Given]


class NewEvent(Strict):
    """Something that happened."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"event_name": "folder.updated", "context": {"path": "/a"}, "subject": "folder-7"}]
        },
    )

    event_name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s*]+$")]
    context: dict[str, Any] = Field(default_factory=dict)
    subject: Name | None = None
    correlation_id: Name | None = None


class TriggerDraft(TriggerChanges):
    """A trigger, as far as it is written."""

    trigger_type: Literal["event", "schedule"] | None = None


class TriggerTrial(Strict):
    """A trigger that is not stored, and what to try it with. With ``trigger_id``, fields that are left out
    are those of that trigger. Without an event, the latest that it is for is taken.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"trigger": {"cron_expr": "0 9 * * MON-FRI", "timezone": "Europe/Paris"}, "runs": 5},
                {
                    "trigger": {
                        "event_name": "folder.*",
                        "definition_key": "sync",
                        "payload_template": {"path": "{{event.path}}"},
                    },
                    "event": {"event_name": "folder.updated", "context": {"path": "/photos"}},
                },
            ]
        },
    )

    trigger: TriggerDraft = Field(default_factory=TriggerDraft)
    trigger_id: UUID | None = None
    event: NewEvent | None = None
    event_id: UUID | None = Field(None, description="Of a stored event, instead of one that is made up.")
    runs: int = Field(5, ge=0, le=100, description="Of a schedule: so many of its next times.")
    after: Moment | None = Field(None, description="From when on; by default from now.")


class Firing(Strict):
    """For one that events set off: the event that it answers to. A new one is seen by no other trigger."""

    event: NewEvent | None = None
    event_id: UUID | None = None


class Replay(Strict):
    triggers: Annotated[list[UUID], Field(max_length=1000)] | None = Field(
        None, description="Only with these; by default with all that there are now."
    )
