"""The definitions in the database, loaded at start and whenever they change.

The definitions in code apply until the database has been read, and where no operator overrides them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from pydantic_core import from_json

from posthouse.core.definition import StoredDefinition, payload_error_messages
from posthouse.core.payload import encode_payload
from posthouse.core.redaction import PLAIN, Redactor, Secrets, redactor_for
from posthouse.core.request import Request
from posthouse.core.retry import Retry
from posthouse.core.schema import compile_schema
from posthouse.errors import ConfigurationError, InactiveDefinition
from posthouse.waiting import wait_for_event
from posthouse.worker.attempt import Attempt
from posthouse.worker.backend import UNREACHABLE
from posthouse.worker.handlers import JobDefinition

_log = logging.getLogger("posthouse.worker")

RELOAD_SECONDS = 5.0
"""Maximum delay of a change while no notifications arrive."""
NOTIFIED_RELOAD_SECONDS = 60.0
"""Maximum delay of a change while notifications arrive."""
_REMEMBERED = 1024
_TEXTS = ("message", "traceback", "stdout", "stderr")


RedactionOverride: TypeAlias = tuple[str, tuple[str, ...]]
"""A schema, as JSON text, and redaction paths."""


class DefinitionSource(Protocol):
    async def definitions_since(self, digest: str) -> tuple[str, list[str]] | None: ...


class DefinitionWatcher:
    """The current definitions: those in code, with the overrides of operators."""

    def __init__(
        self, definitions: Mapping[str, JobDefinition], library: DefinitionSource | None = None
    ) -> None:
        self._definitions = definitions
        self._library = library
        self._rules: dict[str, StoredDefinition] = {}
        self._checked: set[str] = set()  # kinds with an operator's schema
        self._digest = ""
        self._changed = asyncio.Event()
        self._redactors: dict[str, Redactor] = {}
        self._secrets: OrderedDict[str, Secrets] = OrderedDict()
        self.on_reload: Callable[[], Awaitable[None]] = _noop
        self.is_notified: Callable[[], bool] = lambda: False

    def invalidate(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Reload on notification and periodically, until canceled."""
        while True:
            await wait_for_event(
                self._changed, NOTIFIED_RELOAD_SECONDS if self.is_notified() else RELOAD_SECONDS
            )
            self._changed.clear()
            with suppress(*UNREACHABLE):
                await self.reload()
                await self.on_reload()

    async def reload(self) -> None:
        found = None if self._library is None else await self._library.definitions_since(self._digest)
        if found is None:
            return
        self._digest, texts = found
        self._rules = {rules.key: rules for rules in map(StoredDefinition.from_text, texts)}
        self._checked = {
            rules.key
            for rules in self._rules.values()
            if rules.has_schema_override or rules.runner == "command"
        }
        self._redactors.clear()
        self._secrets.clear()

    def get(self, kind: str) -> StoredDefinition | None:
        return self._rules.get(kind)

    def commands(self) -> list[StoredDefinition]:
        return [rules for rules in self._rules.values() if rules.runner == "command"]

    def check(self, attempt: Attempt) -> None:
        """Raise InvalidPayload if an operator's schema rejects the payload.

        The handler's own types are checked when its arguments are read.
        """
        if attempt.row.kind in self._checked:
            self._rules[attempt.row.kind].validate_payload(attempt.row.payload)

    async def fits_newer_code(self, attempt: Attempt, definition: JobDefinition) -> bool:
        """Return whether a payload that this handler rejects fits the definition that was announced last.

        If so, workers with newer code are running, and only they can run the job.
        """
        with suppress(*UNREACHABLE):
            await self.reload()
        rules = self._rules.get(attempt.row.kind)
        if (
            rules is None
            or rules.announced_schema is None
            or definition.arguments.accepts(attempt.row.payload)
        ):
            return False
        if json.loads(rules.announced_schema) == json.loads(json.dumps(definition.arguments.schema())):
            return False
        if rules.has_schema_override and rules.schema_error_messages(attempt.row.payload):
            return False
        newest = compile_schema(rules.announced_schema)
        return newest is None or newest.accepts(from_json(attempt.row.payload))

    def apply_definition(self, request: Request, payload_limit: int) -> Request:
        """Return a follow-up with overrides applied. Raise if its kind would reject it."""
        rules = self._rules.get(request.kind)
        if rules is None:
            return request
        if not rules.active:
            raise InactiveDefinition(
                f"jobs of kind {request.kind!r} are not accepted: its definition is inactive"
            )
        if request.implied is None or rules.has_schema_override:
            found = payload_error_messages(
                rules, encode_payload(request.payload, payload_limit), request.template_values
            )
            if found:
                raise rules.rejection(found)
        return rules.apply_overrides(request)

    def retry(self, kind: str) -> Retry | None:
        """Return the retry policy that an operator has set, or None to use that of the handler."""
        rules = self._rules.get(kind)
        if rules is None:
            return None
        try:
            return rules.retry_override
        except (ConfigurationError, TypeError, ValueError) as error:  # stored without validation
            _log.error("invalid retry policy, using the handler's kind=%s: %s", kind, error)
            return None

    def redactor(self, kind: str) -> Redactor:
        found = self._redactors.get(kind)
        if found is None:
            found = self._redactors[kind] = self._make_redactor(kind)
        return found

    def _make_redactor(self, kind: str) -> Redactor:
        rules, definition = self._rules.get(kind), self._definitions.get(kind)
        if rules is not None:
            return rules.redactor
        if definition is not None:
            return Redactor(definition.arguments.schema(), definition.redact)
        return PLAIN

    def redaction_override(self, kind: str) -> RedactionOverride | None:
        """Return the operator's redaction rules, for a job process, which only knows those in code."""
        rules = self._rules.get(kind)
        if rules is None or not rules.overrides.keys() & {"schema", "redact"}:
            return None
        return rules.schema, rules.redact

    def set_redaction_override(self, kind: str, override: RedactionOverride | None) -> None:
        """Set the redaction rules in a job process; None restores those in code."""
        if override is None:
            self._redactors.pop(kind, None)
        else:
            self._redactors[kind] = redactor_for(override[0], tuple(override[1]))

    def mask_text(self, attempt: Attempt, text: str, *, cut: bool = False) -> str:
        """Mask the secrets of the job's payload in a text, and everything else that looks like a secret."""
        return self.redactor(attempt.row.kind).text(text, self._secrets_of(attempt), cut=cut)

    def mask_error(self, attempt: Attempt, error: Mapping[str, Any]) -> dict[str, Any]:
        """Return an error with secrets masked. Its texts may be cut, and so may secrets in them."""
        return {
            name: self.mask_text(attempt, value, cut=True)
            if name in _TEXTS and isinstance(value, str)
            else value
            for name, value in error.items()
        }

    def _secrets_of(self, attempt: Attempt) -> Secrets:
        found = self._secrets.get(attempt.hex_id)
        if found is None:
            found = self._secrets[attempt.hex_id] = self.redactor(attempt.row.kind).secrets(attempt.payload)
            while len(self._secrets) > _REMEMBERED:
                with suppress(KeyError):  # another thread may have removed it
                    self._secrets.popitem(last=False)
        return found


class CallMask:
    """The mask of one handler call: it masks the secrets of all jobs of the call."""

    __slots__ = ("_attempts", "_definition_watcher")

    def __init__(self, definition_watcher: DefinitionWatcher, attempts: Sequence[Attempt]) -> None:
        self._definition_watcher = definition_watcher
        self._attempts = attempts

    @property
    def about(self) -> dict[str, object]:
        """Return the context of log lines; for a batch, the fields that its jobs share."""
        return (
            self._attempts[0].log_context
            if len(self._attempts) == 1
            else {"kind": self._attempts[0].row.kind}
        )

    def __call__(self, text: str) -> str:
        for attempt in self._attempts:
            text = self._definition_watcher.mask_text(attempt, text)
        return text


async def _noop() -> None:
    """The default callback, which does nothing."""
