"""Definitions: read, create, change and check them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from posthouse import insights
from posthouse.core.command.template import TemplateValues
from posthouse.core.ids import definition_id
from posthouse.core.schema import FieldError
from posthouse.definitions import (
    PayloadCheck,
    change_definition,
    check_draft,
    check_payload,
    create_definition,
    remove_definition,
)
from posthouse.errors import DefinitionNotFound, EditConflict, InvalidDefinition
from posthouse.identity import Permission
from posthouse.insights import DefinitionInfo
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.field_names import OF_DEFINITION, renamed_fields, stored_names, wire
from posthouse.server.http.requests import IdempotencyKey, api_router, run_idempotent
from posthouse.server.http.responses import (
    Cursor,
    Limit,
    Page,
    check_if_match,
    decode_single_cursor,
    etag_response,
    json_response,
    page,
)
from posthouse.server.schemas.jobs import ApiModel, Name, Priority
from posthouse.storage.queries import Db

router = api_router("/definitions", "definitions")
admin = api_router("/admin/jobs/definitions", "definitions", payloads=True)
Reader = Annotated[Access, allow(Permission.DEFINITIONS_READ)]
Writer = Annotated[Access, allow(Permission.DEFINITIONS_WRITE)]
Key = Annotated[str, Path(min_length=1, max_length=512, description="Key or id of the definition.")]

OWN = "posthouse."
"""Prefix of the built-in kinds."""


async def key_of(db: Db, given: str) -> str:
    """Return the key of a definition that is given by its key or its id."""
    try:
        wanted = UUID(given)
    except ValueError:
        return given
    keys = await insights.definition_keys(db)
    return next((key for key in keys if given == key or definition_id(key) == wanted), given)


class Kind(BaseModel):
    """A kind of job as tenants see it. Payloads must match the JSON Schema in ``arg_schema``."""

    id: UUID
    key: str
    description: str
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    arg_schema: dict[str, Any]
    is_active: bool
    runner: Literal["handler", "command"]


def _kind(found: DefinitionInfo) -> dict[str, Any]:
    shown = wire(found)
    return {name: shown[name] for name in Kind.model_fields}


@router.get("", response_model=Page[Kind])
async def list_kinds(access: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the kinds of jobs that can be enqueued."""
    after = decode_single_cursor(cursor, str)
    async with access.transaction() as db:
        found = await insights.definitions(db, after=after, limit=limit, offline_after=access.offline_after)
    shown = page(found, limit, "key")
    items = [_kind(item) for item in found if not item.key.startswith(OWN)]
    return json_response(Page(items, shown.next_cursor))


@router.get("/{key:path}", response_model=Kind)
async def show_kind(request: Request, key: Key, access: Reader) -> Response:
    """Get a kind of job."""
    async with access.transaction() as db:
        key = await key_of(db, key)
        found = await insights.get_definition(db, key, offline_after=access.offline_after)
    if key.startswith(OWN):
        raise DefinitionNotFound(f"definition {key!r} does not exist")
    return etag_response(request, _kind(found))


Names = Annotated[list[Name], Field(max_length=1000, fail_fast=True)]


class DefinitionFields(ApiModel):
    """Fields of a definition."""

    description: str | None = None
    queue: Name | None = None
    priority: Priority | None = None
    max_attempts: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=366 * 86400)] | None = None
    retry: dict[str, Any] | None = None
    arg_schema: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None
    requires: Names | None = None
    prefers: Names | None = None
    followup_queues: Names | None = None
    is_active: bool | None = None
    redact: Names | None = None
    keep_steps: bool | None = None
    keep_progress: bool | None = None
    command: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields that were sent; null where it is meaningful."""
        given = self.model_dump(exclude_unset=True, exclude={"key", "clear", "payload", "tenant_id"})
        given = renamed_fields(given, OF_DEFINITION)
        free = {"timeout_seconds", "retry", "limits"}
        return {name: value for name, value in given.items() if value is not None or name in free}


class NewDefinition(DefinitionFields):
    """A definition to create. Workers register the definitions of their handlers themselves."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "key": "sync-folder",
                    "description": "Sync what a provider changed",
                    "arg_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
                    "timeout_seconds": 3600,
                    "max_attempts": 3,
                    "command": {"argv": ["sync-folder", "--path", "{payload.path}"]},
                }
            ]
        },
    )

    key: Name


class DefinitionChanges(DefinitionFields):
    """The fields to change. Fields in ``clear`` are reset to the code default."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"max_attempts": 5, "clear": ["timeout_seconds"]}]}
    )

    clear: list[Name] = Field(default_factory=list, max_length=50)


@admin.get("", response_model=Page[DefinitionInfo])
async def list_definitions(access: Writer, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List definitions with their effective values."""
    after = decode_single_cursor(cursor, str)
    async with access.transaction() as db:
        found = await insights.definitions(db, after=after, limit=limit, offline_after=access.offline_after)
    return json_response(page(found, limit, "key"))


@admin.post("", status_code=201, response_model=DefinitionInfo)
async def make_definition(
    request: Request, new: NewDefinition, access: Writer, idempotency_key: IdempotencyKey = None
) -> Response:
    """Create a definition.

    With `command`, its jobs run that command. Without, they wait until a worker announces a handler for the
    kind, or until a command is set.
    """

    async def work(db: Db) -> Response:
        await create_definition(db, new.key, new.fields(), actor=access.actor)
        return json_response(
            await insights.get_definition(db, new.key, offline_after=access.offline_after), 201
        )

    return await run_idempotent(request, access, idempotency_key, work)


@admin.get("/{key:path}", response_model=DefinitionInfo)
async def show_definition(request: Request, key: Key, access: Writer) -> Response:
    """Get a definition.

    Send its ETag as If-Match to change it.
    """
    async with access.transaction() as db:
        found = await insights.get_definition(db, await key_of(db, key), offline_after=access.offline_after)
    return etag_response(request, found, found.version)


@admin.patch("/{key:path}", response_model=DefinitionInfo)
async def edit_definition(request: Request, key: Key, changes: DefinitionChanges, access: Writer) -> Response:
    """Change a definition.

    The fields override the values in code. With If-Match, the change fails with 412 if the definition was
    modified since.
    """
    if not changes.fields() and not changes.clear:
        raise InvalidDefinition("no changes: send at least one field, or clear")
    async with access.transaction() as db:
        key = await key_of(db, key)
        old = await insights.get_definition(db, key)
        check_if_match(request, old.version)
        cleared = stored_names(changes.clear, OF_DEFINITION)
        changed = await change_definition(db, key, changes.fields(), clear=cleared, actor=access.actor)
        if "if-match" in request.headers and changed["version"] > old.version + 1:
            raise EditConflict(  # rolls back
                f"the definition {key!r} was modified since you loaded it; reload and try again"
            )
        return json_response(await insights.get_definition(db, key, offline_after=access.offline_after))


@admin.delete("/{key:path}", status_code=204)
async def delete_definition(
    key: Key,
    access: Writer,
    force: Annotated[
        bool, Query(description="Delete it even if jobs of this kind are queued or running.")
    ] = False,
) -> Response:
    """Delete a definition.

    Finished jobs are kept.
    """
    async with access.transaction() as db:
        await remove_definition(db, await key_of(db, key), actor=access.actor, force=force)
    return Response(status_code=204)


checks = api_router("", "definitions", payloads=True)


class PayloadToCheck(ApiModel):
    """A payload to validate."""

    payload: dict[str, Any] = Field(default_factory=dict)


@checks.post("/definitions/{key:path}/check", response_model=PayloadCheck)
async def check_kind(request: Request, key: Key, tried: PayloadToCheck, access: Reader) -> Response:
    """Validate a payload.

    Nothing is enqueued. `command`, the command that would run, is returned to operators only.
    """
    async with access.transaction() as db:
        key = await key_of(db, key)
        if key.startswith(OWN):
            raise DefinitionNotFound(f"definition {key!r} does not exist")
        found = await check_payload(
            db, key, tried.payload, _values(access), payload_limit=_payload_limit(request)
        )
    return json_response(
        found if access.principal.can(Permission.DEFINITIONS_WRITE) else replace(found, command=None)
    )


def _values(access: Access, tenant: str | None = None) -> TemplateValues:
    """Return the job fields that a command template can use."""
    return TemplateValues(tenant_id=tenant or access.with_default_tenant().tenant or "")


def _payload_limit(request: Request) -> int:
    limit: int = request.app.state.settings.max_payload_bytes
    return limit


class DefinitionDraft(DefinitionFields):
    """A definition to preview. With the key of a stored definition, the fields override its values."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "command": {"argv": ["sync-folder", "--path", "{payload.path}"]},
                    "arg_schema": {"type": "object", "required": ["path"]},
                    "payload": {"path": "/photos"},
                }
            ]
        },
    )

    key: Name | None = None
    payload: dict[str, Any] = Field(default_factory=dict)
    tenant_id: Name | None = Field(None, description="Tenant of the job.")


@checks.post("/admin/jobs/definitions/preview", response_model=PayloadCheck)
async def preview_definition(request: Request, draft: DefinitionDraft, access: Writer) -> Response:
    """Preview a definition with a payload.

    Returns whether the payload is valid, and the command that would run. Nothing is stored.
    """
    async with access.transaction() as db:
        found = await check_draft(
            db, draft.key, draft.fields(), draft.payload, _values(access, draft.tenant_id),
            payload_limit=_payload_limit(request),
        )  # fmt: skip
    return json_response(
        replace(found, definition_errors=[_named(fault) for fault in found.definition_errors])
    )


def _named(fault: FieldError) -> FieldError:
    """Return the fault under the name that its field has over HTTP."""
    field, dot, rest = fault.path.partition(".")
    return replace(fault, path=OF_DEFINITION.get(field, field) + dot + rest)
