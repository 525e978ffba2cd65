"""Trying a payload: on a kind of job as it is, and on a definition before it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import ConfigDict, Field

from posthouse.definitions import PayloadCheck, check_draft, check_payload
from posthouse.errors import DefinitionNotFound
from posthouse.identity import Permission
from posthouse.server.access import Access, allow
from posthouse.server.answers import answer
from posthouse.server.bodies import api_router
from posthouse.server.routes.definitions import OWN, DefinitionFields, Key
from posthouse.server.schemas import Name, Strict

router = api_router("", "definitions")
Reader = Annotated[Access, allow(Permission.DEFINITIONS_READ)]
Writer = Annotated[Access, allow(Permission.DEFINITIONS_WRITE)]


class PayloadToCheck(Strict):
    payload: dict[str, Any] = Field(default_factory=dict)


@router.post("/definitions/{key:path}/check", response_model=PayloadCheck)
async def check_kind(request: Request, key: Key, tried: PayloadToCheck, access: Reader) -> Response:
    """Whether a payload fits; nothing is enqueued. ``command`` says what would run, to operators alone."""
    if key.startswith(OWN):
        raise DefinitionNotFound(f"there is no definition {key!r}")
    async with access.session() as db:
        found = await check_payload(
            db, key, tried.payload, _about(access), payload_limit=_payload_limit(request)
        )
    return answer(
        found if access.principal.may(Permission.DEFINITIONS_WRITE) else replace(found, command=None)
    )


def _about(access: Access, tenant: str | None = None) -> dict[str, Any]:
    """Of the job that there would be."""
    return {"tenant_id": tenant or access.writer().whose, "correlation_id": "", "subject": ""}


def _payload_limit(request: Request) -> int:
    limit: int = request.app.state.settings.max_payload_bytes
    return limit


class DefinitionDraft(DefinitionFields):
    """A definition that is not stored. With the key of one that is, these fields stand for its own."""

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
    tenant_id: Name | None = Field(None, description="On whose behalf the job would run.")


@router.post("/admin/jobs/definitions/preview", response_model=PayloadCheck)
async def preview_definition(request: Request, draft: DefinitionDraft, access: Writer) -> Response:
    """Try a payload on a definition before it is stored: whether it fits, and the command that would run."""
    async with access.session() as db:
        found = await check_draft(
            db, draft.key, draft.fields(), draft.payload, _about(access, draft.tenant_id),
            payload_limit=_payload_limit(request),
        )  # fmt: skip
    return answer(found)
