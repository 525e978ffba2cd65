"""Kinds of job: what tenants may enqueue, and what operators make of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from posthouse import insights
from posthouse.definitions import change_definition, create_definition, remove_definition
from posthouse.errors import ChangedMeanwhile, DefinitionNotFound, InvalidDefinition
from posthouse.identity import Permission
from posthouse.insights import DefinitionInfo
from posthouse.server.access import Access, allow
from posthouse.server.answers import answer, tagged, unchanged
from posthouse.server.bodies import api_router
from posthouse.server.paging import Cursor, Limit, Page, clamped, page, read_one
from posthouse.server.repeats import IdempotencyKey, once
from posthouse.server.schemas import Name, Priority, Strict
from posthouse.storage.reading import Db

router = api_router("/definitions", "definitions")
admin = api_router("/admin/jobs/definitions", "definitions")
Reader = Annotated[Access, allow(Permission.DEFINITIONS_READ)]
Writer = Annotated[Access, allow(Permission.DEFINITIONS_WRITE)]
Key = Annotated[str, Path(min_length=1, max_length=512)]

OWN = "posthouse."
"""Kinds of the platform's own begin so."""


class Kind(BaseModel):
    """What a tenant may know of a kind of job: how to enqueue one. Its payload must fit ``arg_schema``."""

    key: str
    description: str
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    arg_schema: dict[str, Any]
    active: bool
    runner: Literal["handler", "command"]


def _kind(found: DefinitionInfo) -> dict[str, Any]:
    named = {name: getattr(found, name) for name in Kind.model_fields if name != "arg_schema"}
    return {**named, "arg_schema": found.schema}


@router.get("", response_model=Page[Kind])
async def list_kinds(access: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Kinds of job that can be enqueued."""
    most = clamped(limit)
    after = read_one(cursor, str)
    async with access.session() as db:
        found = await insights.definitions(db, after=after, limit=most)
    shown = page(found, most, "key")
    items = [_kind(item) for item in found if not item.key.startswith(OWN)]
    return answer(Page(items, shown.next_cursor))


@router.get("/{key:path}", response_model=Kind)
async def show_kind(request: Request, key: Key, access: Reader) -> Response:
    """One kind of job."""
    async with access.session() as db:
        found = await insights.get_definition(db, key)
    if key.startswith(OWN):
        raise DefinitionNotFound(f"there is no definition {key!r}")
    return tagged(request, _kind(found))


class DefinitionFields(Strict):
    """``arg_schema`` is another name for ``schema``, and ``is_active`` for ``active``."""

    description: str | None = None
    queue: Name | None = None
    priority: Priority | None = None
    max_attempts: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=366 * 86400)] | None = None
    retry: dict[str, Any] | None = None
    arg_schema: dict[str, Any] | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    limits: dict[str, Any] | None = None
    requires: list[Name] | None = None
    prefers: list[Name] | None = None
    active: bool | None = None
    is_active: bool | None = None
    redact: list[Name] | None = None
    keep_steps: bool | None = None
    keep_progress: bool | None = None
    command: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """Those that were given; null where it means something."""
        given = self.model_dump(
            exclude_unset=True, by_alias=True, exclude={"key", "clear", "payload", "tenant_id"}
        )
        for name, other in (("arg_schema", "schema"), ("is_active", "active")):
            if name in given:
                given.setdefault(other, given.pop(name))
                given.pop(name, None)
        free = {"timeout_seconds", "retry", "limits"}
        return {name: value for name, value in given.items() if value is not None or name in free}


class NewDefinition(DefinitionFields):
    """A command. Handlers are not created: workers announce them."""

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
    """The fields that change. Those in ``clear`` are given back to the code, or to what is ordinary."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"max_attempts": 5, "clear": ["timeout_seconds"]}]}
    )

    clear: list[Name] = Field(default_factory=list, max_length=50)


@admin.get("", response_model=Page[DefinitionInfo])
async def list_definitions(access: Writer, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Definitions, as they are in effect."""
    most = clamped(limit)
    after = read_one(cursor, str)
    async with access.session() as db:
        found = await insights.definitions(db, after=after, limit=most)
    return answer(page(found, most, "key"))


@admin.post("", status_code=201, response_model=DefinitionInfo)
async def make_definition(
    request: Request, new: NewDefinition, access: Writer, idempotency_key: IdempotencyKey = None
) -> Response:
    """Create a command."""

    async def work(db: Db) -> Response:
        await create_definition(db, new.key, new.fields(), actor=access.actor)
        return answer(await insights.get_definition(db, new.key), 201)

    return await once(request, access, idempotency_key, work)


@admin.get("/{key:path}", response_model=DefinitionInfo)
async def show_definition(request: Request, key: Key, access: Writer) -> Response:
    """One definition. Its ETag serves If-Match when it is changed."""
    async with access.session() as db:
        found = await insights.get_definition(db, key)
    return tagged(request, found, found.version)


@admin.patch("/{key:path}", response_model=DefinitionInfo)
async def edit_definition(request: Request, key: Key, changes: DefinitionChanges, access: Writer) -> Response:
    """Set fields over what the code says. With If-Match: only if nobody else has changed it."""
    if not changes.fields() and not changes.clear:
        raise InvalidDefinition("nothing to change")
    async with access.session() as db:
        old = await insights.get_definition(db, key)
        unchanged(request, old.version)
        changed = await change_definition(db, key, changes.fields(), clear=changes.clear, actor=access.actor)
        if "if-match" in request.headers and changed["version"] > old.version + 1:
            raise ChangedMeanwhile("somebody else was quicker: look again")  # and this is undone
        return answer(await insights.get_definition(db, key))


@admin.delete("/{key:path}", status_code=204)
async def delete_definition(
    key: Key,
    access: Writer,
    force: Annotated[bool, Query(description="Also while jobs of this kind are queued or running.")] = False,
) -> Response:
    """Remove a definition. Jobs that are ended stay."""
    async with access.session() as db:
        await remove_definition(db, key, actor=access.actor, force=force)
    return Response(status_code=204)
