"""docs/reference/errors.md, from the error tree."""

from __future__ import annotations

from collections.abc import Iterator

from docpages.markdown import opening, table, text
from posthouse.errors import PosthouseError

INTRODUCTION = """\
Every error that Posthouse raises is a `PosthouseError`. Each class has a `code`, a text that does not change
between versions: logs and the command line use it, and programs may compare it. The classes live in
`posthouse.errors`; those that a handler or caller meets often can be imported from `posthouse` itself.

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
welcome does not take this payload: name: Input should be a valid string
```

## The tree
"""

SQL = """\
## Errors from SQL

The SQL functions raise conditions of their own. The Python client turns them into the classes above.

| SQLSTATE | error | when |
| --- | --- | --- |
| `PH001` | `DuplicateJob` | the dedupe key is taken, and the caller asked for `reject` |
| `PH002` | `InvalidJob` | a job depends on a job that does not exist |
| `PH010` | `InactiveDefinition` | the kind of the job was deactivated |
| `PH011` | `InvalidDefinition` | a definition cannot be like this: a field is unknown or wrong |

## Errors that attempts record

These names stand in the error of a job or attempt that Posthouse itself ended. They are not classes to catch.

| type | meaning |
| --- | --- |
| `WorkerLost` | the worker died, or stopped renewing the lease |
| `Poison` | too many workers died with this job: see [leases](../leases.md#poison-jobs) |
| `TimedOut` | the handler ran longer than its timeout |
| `SnoozeLimit` | the job snoozed more often, or longer, than its `Snooze` allows |
| `Canceled` | somebody canceled it, or its handler did |
| `DependencyFailed` | a job that it depended on did not succeed |
| `Replaced` | a later job with the same dedupe key took its place |
| `InvalidPayload` | the stored payload is not what the handler takes |
| `Unstorable` | Postgres refused to store the completion |
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
        ]
    )


def _walk(kind: type[PosthouseError], depth: int) -> Iterator[tuple[type[PosthouseError], int]]:
    yield kind, depth
    for child in kind.__subclasses__():
        if child.__module__ == PosthouseError.__module__:
            yield from _walk(child, depth + 1)
