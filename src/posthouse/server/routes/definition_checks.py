"""Validation of payloads against stored definitions and drafts."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import ConfigDict, Field

from posthouse.core.schema import Fault
from posthouse.definitions import PayloadCheck, check_draft, check_payload
from posthouse.errors import DefinitionNotFound
from posthouse.identity import Permission
from posthouse.server.access import Access, allow
from posthouse.server.answers import answer
from posthouse.server.bodies import api_router
from posthouse.server.names import OF_DEFINITION
from posthouse.server.routes.definitions import OWN, DefinitionFields, Key, key_of
from posthouse.server.schemas import Name, Strict

router = api_router("", "definitions", payloads=True)
Reader = Annotated[Access, allow(Permission.DEFINITIONS_READ)]
Writer = Annotated[Access, allow(Permission.DEFINITIONS_WRITE)]


class PayloadToCheck(Strict):
    """A payload to validate."""

    payload: dict[str, Any] = Field(default_factory=dict)


@router.post("/definitions/{key:path}/check", response_model=PayloadCheck)
async def check_kind(request: Request, key: Key, tried: PayloadToCheck, access: Reader) -> Response:
    """Validate a payload.

    Nothing is enqueued. `command`, the command that would run, is returned to operators only.
    """
    async with access.session() as db:
        key = await key_of(db, key)
        if key.startswith(OWN):
            raise DefinitionNotFound(f"definition {key!r} does not exist")
        found = await check_payload(
            db, key, tried.payload, _about(access), payload_limit=_payload_limit(request)
        )
    return answer(
        found if access.principal.may(Permission.DEFINITIONS_WRITE) else replace(found, command=None)
    )


def _about(access: Access, tenant: str | None = None) -> dict[str, Any]:
    """Return the job fields that a command template can use."""
    return {"tenant_id": tenant or access.writer().whose, "correlation_id": "", "subject": ""}


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


@router.post("/admin/jobs/definitions/preview", response_model=PayloadCheck)
async def preview_definition(request: Request, draft: DefinitionDraft, access: Writer) -> Response:
    """Preview a definition with a payload.

    Returns whether the payload is valid, and the command that would run. Nothing is stored.
    """
    async with access.session() as db:
        found = await check_draft(
            db, draft.key, draft.fields(), draft.payload, _about(access, draft.tenant_id),
            payload_limit=_payload_limit(request),
        )  # fmt: skip
    return answer(replace(found, definition_errors=[_named(fault) for fault in found.definition_errors]))


def _named(fault: Fault) -> Fault:
    """Return the fault under the name that its field has over HTTP."""
    field, dot, rest = fault.path.partition(".")
    return replace(fault, path=OF_DEFINITION.get(field, field) + dot + rest)
