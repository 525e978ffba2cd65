"""docs/reference/settings.md, from the fields of Settings."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, get_type_hints

from docpages.markdown import opening, table, text
from posthouse.settings import ENV_PREFIX, FILE_NAME, Settings

INTRODUCTION = f"""\
Each setting has a default. The file `{FILE_NAME}` in the working directory overrides the default, an
environment variable overrides the file, and a flag of the [command line](commands.md) overrides both. The
file uses the name of the setting; the environment variable is the name in capitals with the prefix
`{ENV_PREFIX}`. An empty variable counts as not set. An unknown name is an error that suggests the nearest
one.

`posthouse config` shows the settings in effect and the source of each.

```toml
concurrency = 50
drain_seconds = "2m"
```

Settings that end in `_seconds` take a number, or a string with a unit: `"500ms"`, `"30s"`, `"5m"`, `"1h30m"`.
"""

RULES = """\
## Rules between settings

- `lease_seconds` must be at least twice `heartbeat_seconds`, so that a worker has a second chance to renew.
- All workers and keepers of a database should have the same `lease_seconds`, `crash_limit` and
  `rescue_grace_seconds`. If they differ, the bounds in [leases](../leases.md) depend on the process
  that acts.

In Python, the settings are the fields of `posthouse.settings.Settings`:
"""

EXAMPLE = """\
```python
import posthouse
from posthouse.settings import load_settings

app = posthouse.App(settings=load_settings(concurrency=20, poll_seconds=0.5))
```
"""


def page() -> str:
    hints = get_type_hints(Settings)
    return text(
        [
            *opening("Settings", "posthouse.settings"),
            INTRODUCTION,
            *table(
                ["setting", "type", "default", "minimum", "description"],
                [_line(item, hints[item.name]) for item in fields(Settings)],
            ),
            "Environment variables: "
            + ", ".join(f"`{ENV_PREFIX}{item.name.upper()}`" for item in fields(Settings))
            + ".",
            "",
            _secrets(),
            "",
            RULES,
            EXAMPLE,
        ]
    )


def _line(item: Field[Any], kind: Any) -> tuple[str, ...]:
    minimum = item.metadata.get("minimum")
    return (
        f"`{item.name}`",
        "duration" if kind is float and item.name.endswith("_seconds") else kind.__name__.lower(),
        _default(item),
        "" if minimum is None else f"{minimum:g}",
        item.metadata["help"],
    )


def _default(item: Field[Any]) -> str:
    if item.default is MISSING:
        return (
            "`~/.local/share/posthouse`, or below `$XDG_DATA_HOME`" if item.name == "data_dir" else "computed"
        )
    if item.default == "":
        return "empty"
    return f"`{item.default:g}`" if isinstance(item.default, float) else f"`{item.default}`"


def _secrets() -> str:
    names = [f"`{item.name}`" for item in fields(Settings) if item.metadata.get("secret")]
    return f"These settings are secret and always shown masked: {', '.join(names)}."
