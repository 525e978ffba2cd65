"""docs/reference/errors.md, from the error tree."""

from __future__ import annotations

from collections.abc import Iterator

from docpages.markdown import opening, table, text
from posthouse.errors import PosthouseError
from posthouse.storage.errors import BY_SQLSTATE

INTRODUCTION = """\
Every error that Posthouse raises is a `PosthouseError`. Each class has a `code`, a text that does not change
between versions and that logs, the API and the command line use. The classes are in `posthouse.errors`;
common ones can also be imported from `posthouse`.

```python
import posthouse
from posthouse.errors import InvalidPayload

app = posthouse.App()


@app.job()
async def welcome(name: str) -> None: ...


try:
    await welcome.enqueue(name=7)
except InvalidPayload as error:
    print(error.code)
    print(error)
```

```text
invalid_payload
invalid payload for welcome: name: Input should be a valid string
```

## Error classes
"""

SQL = """\
## Errors from SQL

The SQL functions raise these conditions. The Python client converts them to the classes above.
"""

ATTEMPTS = """\
## Errors that attempts record

These types appear in the error of a job or attempt that Posthouse itself ended. They are not exceptions that
you can catch.

| type | meaning |
| --- | --- |
| `WorkerLost` | the worker died, or stopped renewing the lease |
| `LeaseExpired` | the lease expired while the worker was alive: its claim's reply or its report was lost |
| `Poison` | too many workers died while running this job: see [leases](../leases.md#poison-jobs) |
| `TimedOut` | the handler exceeded its timeout |
| `SnoozeLimit` | the job exceeded the limit or deadline of its `Snooze` |
| `Canceled` | a caller or the handler canceled the job |
| `DependencyFailed` | a dependency did not succeed |
| `Replaced` | a later job with the same dedupe key replaced it |
| `InvalidPayload` | the handler does not accept the stored payload |
| `Unstorable` | Postgres could not store the completion |
"""


def page() -> str:
    tree = list(_walk(PosthouseError, 0))
    return text(
        [
            *opening("Errors", "posthouse.errors"),
            INTRODUCTION,
            "```text",
            *(f"{'    ' * depth}{kind.__name__}" for kind, depth in tree),
            "```",
            "",
            *table(
                ["error", "code", "meaning"],
                [(f"`{kind.__name__}`", f"`{kind.code}`", (kind.__doc__ or "").strip()) for kind, _ in tree],
            ),
            SQL,
            *table(
                ["SQLSTATE", "error", "meaning"],
                [
                    (f"`{state}`", f"`{kind.__name__}`", (kind.__doc__ or "").strip())
                    for state, kind in BY_SQLSTATE.items()
                    if state.startswith("PH")
                ],
            ),
            ATTEMPTS,
        ]
    )


def _walk(kind: type[PosthouseError], depth: int) -> Iterator[tuple[type[PosthouseError], int]]:
    yield kind, depth
    for child in kind.__subclasses__():
        if child.__module__ == PosthouseError.__module__:
            yield from _walk(child, depth + 1)
