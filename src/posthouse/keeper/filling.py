"""The payload that a trigger makes: its template filled in, and fit for the kind of job that it is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posthouse.commands.payloads import problems_with
from posthouse.core.kind import KindRules
from posthouse.core.payload import encode_payload
from posthouse.core.template import render
from posthouse.errors import InactiveDefinition, InvalidDefinition


def filled(
    trigger: Mapping[str, Any],
    context: Mapping[str, Any],
    rules: KindRules | None,
    about: Mapping[str, Any],
    payload_limit: int,
) -> str:
    """The payload as JSON; raises one of our errors that says why there is none."""
    if rules is None:
        raise InvalidDefinition(f"there is no definition {trigger['definition_key']!r} any more")
    if not rules.active:
        raise InactiveDefinition(f"jobs of kind {rules.key!r} are not taken: its definition is inactive")
    roots = {"tenant_id": trigger["tenant_id"], "trigger_id": trigger["id"]}
    payload = encode_payload(render(trigger["payload_template"], {**roots, **context}), payload_limit)
    problems = problems_with(rules, payload, about)
    if problems:
        raise rules.refusal(problems)
    return payload
