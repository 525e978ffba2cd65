"""Generated rules of software projects, similar enough for a search."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count, islice, product

PARTS = (
    "the payment service", "the search index", "the mobile client", "the billing worker", "the public API",
    "the message queue", "the user database", "the image pipeline", "the login page", "the report builder",
    "the audit log", "the feature flags", "the cache", "the deployment script", "the admin console",
    "the notification service", "the import job", "the pricing engine", "the session store",
    "the data warehouse",
)  # fmt: skip
DEMANDS = (
    ("Encrypt what leaves", "All traffic from {part} is encrypted in transit"),
    ("Log no secrets", "{part} never writes passwords, tokens or card numbers to its logs"),
    ("Bound every wait", "Each call that {part} makes has a timeout and a limited number of retries"),
    ("Validate at the edge", "{part} checks every input against a schema before it is used"),
    ("Own your tables", "No other program reads or writes the tables of {part}"),
    ("Migrate forward", "Changes of the schema behind {part} are additive and need no downtime"),
    ("Measure it", "{part} publishes its latency, its error rate and its throughput"),
    ("Write the test first", "A fix in {part} begins with a test that shows the fault"),
    ("Review in pairs", "Two people read each change of {part} before it is merged"),
    ("Fail soft", "When a dependency is away, {part} goes on with what it has and says so"),
    ("Name things once", "{part} has one word for each concept, in code and in documents"),
    ("Page by cursor", "Lists that {part} returns are paged by cursor and never by offset"),
    ("Repeat safely", "Any request to {part} may be sent twice and is carried out once"),
    ("Keep it small", "A change to {part} that cannot be reviewed in half an hour is split"),
    ("Rotate keys", "The keys that {part} uses are exchanged every ninety days"),
)
REASONS = (
    "We learned it from an outage", "The auditors ask for it", "It saves hours of searching",
    "Customers noticed before we did", "Releases stay independent", "Exceptions are soon forgotten",
    "It was cheaper than the incident", "New colleagues rely on it",
)  # fmt: skip
PRIORITIES = ("low", "medium", "medium", "medium", "high", "critical")


class SampleRules:
    """A generator of rules with distinct texts, except for requested copies."""

    def __init__(self) -> None:
        self._random = random.Random(7)  # noqa: S311 - the same rules each time
        self._texts = self._shuffled()
        self._numbers = count(1)

    def rules(self, size: int, copies: float = 0.0) -> dict[str, list[str]]:
        """Return the columns of ``size`` rules; the share ``copies`` of them are copies of others."""
        copied = round(size * copies)
        texts = list(islice(self._texts, size - copied))
        texts += [self._random.choice(texts) for _ in range(copied)]
        self._random.shuffle(texts)
        titles, guidances, rationales = (list(column) for column in zip(*texts, strict=True))
        return {
            "rule_ids": [f"R-{next(self._numbers)}" for _ in texts],
            "titles": titles,
            "guidances": guidances,
            "rationales": rationales,
            "priorities": [self._random.choice(PRIORITIES) for _ in texts],
        }

    def _shuffled(self) -> Iterator[tuple[str, str, str]]:
        """Yield all texts in random order; then again, with a number."""
        texts = list(product(DEMANDS, PARTS, REASONS))
        self._random.shuffle(texts)
        for edition in count(1):
            mark = f" ({edition})" if edition > 1 else ""
            for (title, guidance), part, reason in texts:
                sentence = guidance.format(part=part)
                yield f"{title}{mark}", f"{sentence[0].upper()}{sentence[1:]}.", f"{reason}."
