"""Dry runs: whether a payload is valid, and the command that would run. Nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posthouse.core.definition import KindRules, arguments, faults_with, problems_with, spec_of
from posthouse.core.payload import encode_payload
from posthouse.core.schema import Fault
from posthouse.definitions.fields import read_fields
from posthouse.errors import DefinitionNotFound, InvalidDefinition
from posthouse.storage.definitions import rules_of
from posthouse.storage.queries import Db

ANYBODY = {"tenant_id": "default", "correlation_id": "", "subject": ""}
"""Attributes of a job of which only the payload matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The command that would run. ``variables`` may be set in its environment, ``secrets`` are required."""

    argv: list[str]
    cwd: str
    variables: list[str]
    secrets: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadCheck:
    """The result of validating a payload.

    ``active``: whether the definition accepts jobs. ``command``: the command that would run, if any.
    ``definition_errors``: why the definition itself is invalid.
    """

    valid: bool
    active: bool
    errors: list[Fault]
    command: Preview | None = None
    definition_errors: list[Fault] = field(default_factory=list)


async def payload_problems(
    connection: Db, key: str, payload: Mapping[str, Any], *, payload_limit: int
) -> list[str]:
    """Return the errors that an enqueue of this payload would be rejected with."""
    return problems_with(await _rules(connection, key), encode_payload(payload, payload_limit), ANYBODY)


async def preview_command(
    connection: Db, key: str, payload: Mapping[str, Any], about: Mapping[str, Any], *, payload_limit: int
) -> Preview:
    """Return the command that a job with this payload would run. Raises InvalidPayload."""
    rules = await _rules(connection, key)
    spec_of(rules)
    text = encode_payload(payload, payload_limit)
    problems = problems_with(rules, text, about)
    if problems:
        raise rules.refusal(problems)
    return _preview(rules, text, about)


async def check_payload(
    connection: Db, key: str, payload: Mapping[str, Any], about: Mapping[str, Any], *, payload_limit: int
) -> PayloadCheck:
    """Validate a payload against a stored definition."""
    return _checked(await _rules(connection, key), encode_payload(payload, payload_limit), about)


async def check_draft(
    connection: Db,
    key: str | None,
    fields: Mapping[str, Any],
    payload: Mapping[str, Any],
    about: Mapping[str, Any],
    *,
    payload_limit: int,
) -> PayloadCheck:
    """Validate a payload against a definition as it would be with these fields. It need not exist."""
    text = encode_payload(payload, payload_limit)
    known, faults = read_fields(fields)
    stored = await rules_of(connection, [key]) if key else []
    if faults:
        return PayloadCheck(valid=False, active=True, errors=[], definition_errors=faults)
    try:
        return _checked(_drafted(stored[0] if stored else None, key, known), text, about)
    except InvalidDefinition as error:  # a stored definition may be invalid
        unusable = [Fault("", str(error))]
        return PayloadCheck(valid=False, active=True, errors=[], definition_errors=unusable)


def _drafted(stored: KindRules | None, key: str | None, known: Mapping[str, Any]) -> KindRules:
    base = stored or KindRules(key=key or "draft", overrides={})
    command = known.get("command", base.command)
    return KindRules(
        key=base.key,
        active=known.get("active", base.active),
        schema=json.dumps(known["schema"]) if "schema" in known else base.schema,
        redact=tuple(known.get("redact", base.redact)),
        overrides=base.overrides,
        runner="command" if command else base.runner,
        command=command,
    )


def _checked(rules: KindRules, text: str, about: Mapping[str, Any]) -> PayloadCheck:
    faults = faults_with(rules, text, about)
    runs = rules.command is not None and not faults
    return PayloadCheck(
        valid=not faults,
        active=rules.active,
        errors=faults,
        command=_preview(rules, text, about) if runs else None,
    )


def _preview(rules: KindRules, text: str, about: Mapping[str, Any]) -> Preview:
    spec = spec_of(rules)
    return Preview(
        argv=arguments(rules, json.loads(text), about),
        cwd=spec.cwd,
        variables=sorted({*spec.inherit_env, *spec.env, *spec.secrets}),
        secrets=sorted(set(spec.secrets.values())),
    )


async def _rules(connection: Db, key: str) -> KindRules:
    found = await rules_of(connection, [key])
    if not found:
        raise DefinitionNotFound(f"definition {key!r} does not exist")
    return found[0]
