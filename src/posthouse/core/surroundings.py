"""What a log line is about: the job, the request and the trace where it is logged, whoever logs it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from posthouse.core.redaction.logs import mask_now

Told: TypeAlias = Callable[[], Mapping[str, object]]


def _job() -> Mapping[str, object]:
    """The job that runs here is known already: what must not be shown of it is masked."""
    return getattr(mask_now(), "about", None) or {}


_tellers: list[Told] = [_job]


def tell(teller: Told) -> None:
    """From now on lines carry what this says of the place where they are logged."""
    if teller not in _tellers:
        _tellers.append(teller)


class Surroundings(logging.Filter):
    """Adds it to every record. What a record says of itself stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        for teller in _tellers:
            for name, value in teller().items():
                if not hasattr(record, name):
                    setattr(record, name, value)
        return True
