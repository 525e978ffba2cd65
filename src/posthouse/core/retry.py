"""Retry policies: when a failed job runs again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from posthouse.core.duration import Duration, seconds
from posthouse.errors import ConfigurationError

DEFAULT_MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """A retry policy: a list of delays, or exponential backoff.

    ``Retry("1m", "5m", "15m")`` waits for these delays, one before each retry, so a job has four attempts.
    ``Retry.exponential("30s", cap="10m")`` starts with 30 seconds and doubles the delay each time.

    ``jitter`` is a share from 0 to 1: each delay varies randomly by up to that share.
    """

    ladder: tuple[float, ...]
    base: float
    factor: float
    cap: float
    jitter: float

    def __init__(self, *ladder: Duration, jitter: float = 0.0) -> None:
        if not ladder:
            raise ConfigurationError(
                'Retry needs at least one delay, such as Retry("1m", "5m"); '
                "for growing delays use Retry.exponential(...)"
            )
        self._fill(ladder=tuple(seconds(rung) for rung in ladder), jitter=jitter)

    @classmethod
    def exponential(
        cls,
        base: Duration = "10s",
        *,
        factor: float = 2.0,
        cap: Duration = "10m",
        jitter: float = 0.2,
    ) -> Retry:
        """Return a policy with the delays ``base``, ``base * factor``, ``base * factor²``, … up to ``cap``.

        ``jitter`` is a share from 0 to 1: each delay varies randomly by up to that share.
        """
        if factor < 1:
            raise ConfigurationError(f"factor must be at least 1, not {factor}")
        policy = object.__new__(cls)
        policy._fill(base=seconds(base), factor=factor, cap=seconds(cap), jitter=jitter)
        return policy

    def _fill(
        self,
        *,
        ladder: tuple[float, ...] = (),
        base: float = 0.0,
        factor: float = 1.0,
        cap: float = 0.0,
        jitter: float,
    ) -> None:
        if not 0 <= jitter <= 1:
            raise ConfigurationError(f"jitter must be from 0 to 1, not {jitter}")
        values = {"ladder": ladder, "base": base, "factor": factor, "cap": cap, "jitter": jitter}
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the dataclass is frozen

    @property
    def attempts(self) -> int:
        """Default number of attempts of a job with this policy."""
        return len(self.ladder) + 1 if self.ladder else DEFAULT_MAX_ATTEMPTS

    def delay(self, attempt: int, rng: random.Random) -> float:
        """Return the seconds to wait after the given attempt failed. The first attempt is 1."""
        if self.ladder:
            plain = self.ladder[min(attempt, len(self.ladder)) - 1]
        else:
            plain = min(self.cap, self.base * self.factor ** min(attempt - 1, 64))
        return plain * rng.uniform(1 - self.jitter, 1 + self.jitter) if self.jitter else plain

    def to_json(self) -> dict[str, Any]:
        if self.ladder:
            return {"ladder": list(self.ladder), "jitter": self.jitter}
        return {"base": self.base, "factor": self.factor, "cap": self.cap, "jitter": self.jitter}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Retry:
        if data.get("ladder"):
            return cls(*data["ladder"], jitter=data.get("jitter", 0.0))
        return cls.exponential(**data)


DEFAULT_RETRY = Retry.exponential()
