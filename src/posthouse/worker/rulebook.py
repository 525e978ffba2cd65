"""What the definitions in the database say now. Read when the worker starts and whenever they changed.

The code's word counts as long as no operator overrode it, and while the database has not been read yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from posthouse.commands.payloads import problems_with
from posthouse.core.kind import KindRules
from posthouse.core.payload import encode_payload
from posthouse.core.redaction import PLAIN, Redactor, Secrets, redactor_for
from posthouse.core.request import Request
from posthouse.core.retry import Retry
from posthouse.errors import ConfigurationError, InactiveDefinition
from posthouse.waiting import until_set
from posthouse.worker.backend import AWAY
from posthouse.worker.definition import Definition
from posthouse.worker.job import Job

_log = logging.getLogger("posthouse.worker")

REREAD_SECONDS = 5.0
"""How long a change may take to arrive where no notification does."""
_REMEMBERED = 1024
_TEXTS = ("message", "traceback", "stdout", "stderr")


Marks: TypeAlias = tuple[str, tuple[str, ...]]
"""A schema, as JSON text, and paths."""


class Library(Protocol):
    async def definitions_since(self, digest: str) -> tuple[str, list[str]] | None: ...


class Rulebook:
    def __init__(self, definitions: Mapping[str, Definition], library: Library | None = None) -> None:
        self._definitions = definitions
        self._library = library
        self._rules: dict[str, KindRules] = {}
        self._checked: set[str] = set()  # kinds with a schema that is not the handler's own
        self._digest = ""
        self._changed = asyncio.Event()
        self._redactors: dict[str, Redactor] = {}
        self._secrets: OrderedDict[str, Secrets] = OrderedDict()
        self.on_read: Callable[[], Awaitable[None]] = _nothing

    def look_again(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Reads again when told to, and now and then, until canceled."""
        while True:
            await until_set(self._changed, REREAD_SECONDS)
            self._changed.clear()
            with suppress(*AWAY):
                await self.reread()
                await self.on_read()

    async def reread(self) -> None:
        found = None if self._library is None else await self._library.definitions_since(self._digest)
        if found is None:
            return
        self._digest, texts = found
        self._rules = {rules.key: rules for rules in map(KindRules.from_text, texts)}
        self._checked = {
            rules.key for rules in self._rules.values() if rules.operators_schema or rules.runner == "command"
        }
        self._redactors.clear()
        self._secrets.clear()

    def of(self, kind: str) -> KindRules | None:
        return self._rules.get(kind)

    def commands(self) -> list[KindRules]:
        return [rules for rules in self._rules.values() if rules.runner == "command"]

    def check(self, job: Job) -> None:
        """Refuses a payload that an operator's schema does not allow. Whether it fits the handler's own types
        is found out when its arguments are read.
        """
        if job.kind in self._checked:
            self._rules[job.kind].check(job.payload_text)

    def admitted(self, request: Request, payload_limit: int) -> Request:
        """A follow-up as it is to be enqueued; refused if its kind would refuse it."""
        rules = self._rules.get(request.kind)
        if rules is None:
            return request
        if not rules.active:
            raise InactiveDefinition(
                f"jobs of kind {request.kind!r} are not taken: its definition is inactive"
            )
        if request.implied is None or rules.operators_schema:
            found = problems_with(rules, encode_payload(request.payload, payload_limit), request.about)
            if found:
                raise rules.refusal(found)
        return rules.gives_way(request)

    def retry(self, kind: str) -> Retry | None:
        """The policy that an operator chose; None leaves it to the handler's."""
        rules = self._rules.get(kind)
        if rules is None:
            return None
        try:
            return rules.operators_retry
        except (ConfigurationError, TypeError, ValueError) as error:  # stored by hand, past all checks
            _log.error("%s: its retry policy is unusable, the handler's own counts: %s", kind, error)
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

    def operators_marks(self, kind: str) -> Marks | None:
        """What an operator marked as secret, for processes that know only the code."""
        rules = self._rules.get(kind)
        if rules is None or not rules.overrides.keys() & {"schema", "redact"}:
            return None
        return rules.schema, rules.redact

    def mark(self, kind: str, marks: Marks | None) -> None:
        """In such a process: these count for now; None leaves it to the code."""
        if marks is None:
            self._redactors.pop(kind, None)
        else:
            self._redactors[kind] = redactor_for(marks[0], tuple(marks[1]))

    def masked(self, job: Job, text: str, *, cut: bool = False) -> str:
        """A text of this job to be seen: without what its payload holds in secret, and what looks like it."""
        return self.redactor(job.kind).text(text, self._secrets_of(job), cut=cut)

    def masked_error(self, job: Job, error: Mapping[str, Any]) -> dict[str, Any]:
        """An error as it is stored. Its texts are pieces of longer ones, more often than not."""
        return {
            name: self.masked(job, value, cut=True) if name in _TEXTS and isinstance(value, str) else value
            for name, value in error.items()
        }

    def _secrets_of(self, job: Job) -> Secrets:
        found = self._secrets.get(job.hex_id)
        if found is None:
            found = self._secrets[job.hex_id] = self.redactor(job.kind).secrets(job.payload)
            while len(self._secrets) > _REMEMBERED:
                with suppress(KeyError):  # another thread may have been quicker
                    self._secrets.popitem(last=False)
        return found


class Masks:
    """Masks for whoever runs some jobs: what one of them must not show, none does."""

    __slots__ = ("_jobs", "_rulebook")

    def __init__(self, rulebook: Rulebook, jobs: Sequence[Job]) -> None:
        self._rulebook = rulebook
        self._jobs = jobs

    @property
    def about(self) -> dict[str, object]:
        """What a line that is logged here is about: of a batch, what its jobs share."""
        return self._jobs[0].about if len(self._jobs) == 1 else {"kind": self._jobs[0].kind}

    def __call__(self, text: str) -> str:
        for job in self._jobs:
            text = self._rulebook.masked(job, text)
        return text


async def _nothing() -> None:
    """Nobody waits for news."""
