"""Request models of triggers and events."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field

from posthouse.server.http.field_names import renamed_fields
from posthouse.server.http.requests import ApiDatetime
from posthouse.server.schemas.jobs import ApiModel, Name, Object, Priority, Seconds

Label = Annotated[str, Field(max_length=200)]
Jitter = Annotated[float, Field(ge=0, le=86400)]


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError("must not be null; omit the field to leave it unchanged")
    return value


NotNull = AfterValidator(_given)


class TriggerChanges(ApiModel):
    """The fields to change; omitted fields stay unchanged.

    Set ``queue`` or ``priority`` to null to use the value of the definition.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"cron_expr": "0 3 * * *"}]})

    label: Label | None = None
    is_enabled: bool | None = None
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
        """Return the fields that were sent. Null resets queue and priority, and is ignored elsewhere."""
        given = renamed_fields(self.model_dump(exclude_unset=True), {"enabled": "is_enabled"})
        return {
            name: value for name, value in given.items() if value is not None or name in {"queue", "priority"}
        }


class NewTrigger(TriggerChanges):
    """A trigger to create. Type event requires event_name, type schedule requires cron_expr."""

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
    definition_key: Annotated[Name, NotNull]


class NewEvent(ApiModel):
    """An event to emit."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"event_name": "folder.updated", "context": {"path": "/a"}, "subject": "folder-7"}]
        },
    )

    event_name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s*]+$")]
    context: Object = Field(default_factory=dict)
    subject: Name | None = None
    correlation_id: Name | None = None


class TriggerDraft(TriggerChanges):
    """An incomplete trigger, for a preview."""

    trigger_type: Literal["event", "schedule"] | None = None


class TriggerPreviewRequest(ApiModel):
    """A trigger to preview without storing it.

    With ``trigger_id``, omitted fields are taken from that trigger. Without an event, the latest matching
    event is used.
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
    event_id: UUID | None = Field(None, description="Id of a stored event; an alternative to `event`.")
    runs: int = Field(5, ge=0, le=100, description="Number of next runs to return, for a schedule.")
    after: ApiDatetime | None = Field(None, description="Start of the next runs; default: now.")


class FireRequest(ApiModel):
    """The event to fire an event trigger with. A new event is not sent to other triggers."""

    event: NewEvent | None = None
    event_id: UUID | None = None


class Replay(ApiModel):
    """Options of an event replay."""

    triggers: Annotated[list[UUID], Field(max_length=1000, fail_fast=True)] | None = Field(
        None, description="Ids of the triggers to match; default: all current triggers."
    )
