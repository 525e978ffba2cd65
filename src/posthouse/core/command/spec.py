"""Definitions of commands, and what their exit codes mean for the job."""

from __future__ import annotations

import difflib
import os.path
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

from posthouse.core.command.template import ArgvTemplate, Template, parse_template
from posthouse.core.duration import seconds
from posthouse.core.secret_names import SECRET_PREFIX, is_secret_name
from posthouse.errors import ConfigurationError, InvalidCommand

Action = Literal["succeed", "retry", "fail", "snooze", "timeout", "canceled"]

SIGNALED = 128  # a process killed by signal n counts as exit code 128 + n, as in shells
_HIGHEST = 255
_KEY = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")
_DEFAULTS = {"0": "succeed", "65": "fail", "75": "retry"}  # EX_DATAERR, EX_TEMPFAIL of sysexits.h


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome; ``delay`` is the delay of a snooze in seconds."""

    action: Action
    delay: float = 0.0


class ExitCodes:
    """A table of exit codes and ranges.

    Single codes take precedence over ranges, and both over the defaults.
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        self._singles: dict[int, Outcome] = {}
        self._ranges: list[tuple[int, int, Outcome]] = []
        for key, action in table.items():
            self._add(*_span(key), _outcome(key, action))
        self._defaults = {int(code): _outcome(code, action) for code, action in _DEFAULTS.items()}

    def _add(self, low: int, high: int, outcome: Outcome) -> None:
        if low == high:
            self._singles[low] = outcome
            return
        for other_low, other_high, _ in self._ranges:
            if low <= other_high and other_low <= high:
                raise InvalidCommand(f"exit_codes: {low}-{high} and {other_low}-{other_high} overlap")
        self._ranges.append((low, high, outcome))

    def __getitem__(self, code: int) -> Outcome:
        if code in self._singles:
            return self._singles[code]
        for low, high, outcome in self._ranges:
            if low <= code <= high:
                return outcome
        return self._defaults.get(code, Outcome("retry"))


def _span(key: Any) -> tuple[int, int]:
    match = _KEY.fullmatch(key) if isinstance(key, str) else None
    if match is None:
        raise InvalidCommand(
            f'exit_codes: invalid key {key!r}; use a code such as "75" or a range such as "1-63"'
        )
    low, high = int(match[1]), int(match[2] or match[1])
    if not low <= high <= _HIGHEST:
        raise InvalidCommand(
            f"exit_codes: {key!r} must be between 0 and {_HIGHEST}, with the lower code first"
        )
    return low, high


def _outcome(key: str, action: Any) -> Outcome:
    match action:
        case "succeed" | "retry" | "fail":
            return Outcome(action)
        case str() if action.startswith("snooze:"):
            try:
                return Outcome("snooze", seconds(action.removeprefix("snooze:")))
            except ConfigurationError as error:
                raise InvalidCommand(f"exit_codes: {key}: {error}") from None
    raise InvalidCommand(
        f'exit_codes: {key} must be "succeed", "retry", "fail" or "snooze:30s", not {action!r}'
    )


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


DEFAULT_INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")

OWN_PREFIX = "POSTHOUSE_"
"""Prefix of variables with settings of the worker, such as the URL of its database with the password."""
_EVENT = re.compile(r"[^\s*\x00-\x1f\x7f]{1,200}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_OUTPUT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A command definition. Creating one validates it.

    InvalidCommand says what is wrong and what to write.
    """

    argv: ArgvTemplate
    allow_dash: tuple[str, ...] = ()
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    inherit_env: tuple[str, ...] = DEFAULT_INHERITED
    max_output_bytes: int = 64 * 1024
    memory_mb: int | None = None
    cpu_seconds: int | None = None
    open_files: int | None = 1024
    exit_codes: Mapping[str, str] = field(default_factory=dict)
    progress: Literal["lines"] | None = None
    result: Literal["json"] | None = None
    emits: str | None = None
    template: Template = field(init=False, repr=False, compare=False)
    endings: ExitCodes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            check(name, getattr(self, name))
        if twice := sorted(self.env.keys() & self.secrets.keys()):
            raise InvalidCommand(f"{', '.join(twice)}: set by both env and secrets; keep one")
        for name in ("allow_dash", "inherit_env"):
            _set(self, name, tuple(getattr(self, name)))
        for name in ("env", "secrets", "exit_codes"):
            _set(self, name, dict(getattr(self, name)))
        _set(self, "template", parse_template(self.argv, self.allow_dash))
        _set(self, "argv", tuple(item if isinstance(item, str) else tuple(item) for item in self.argv))
        _set(self, "endings", ExitCodes(self.exit_codes))

    @classmethod
    def from_json(cls, data: Any) -> CommandSpec:
        if not isinstance(data, Mapping):
            raise InvalidCommand(f"a command definition must be a JSON object, not {type(data).__name__}")
        for name in data:
            if name not in _FIELDS:
                raise InvalidCommand(f"unknown field {name!r} in the command definition{_guess(str(name))}")
        if "argv" not in data:
            raise InvalidCommand(
                'a command definition must have argv, for example ["convert", "{payload.file}"]'
            )
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that ``from_json`` accepts, without fields that have their default."""
        return {
            name: _plain(getattr(self, name)) for name in _FIELDS if getattr(self, name) != _default(name)
        }


def _set(spec: CommandSpec, name: str, value: Any) -> None:
    object.__setattr__(spec, name, value)  # the dataclass is frozen


_FIELDS = {item.name: item for item in fields(CommandSpec) if item.init}


def _default(name: str) -> Any:
    item = _FIELDS[name]
    return item.default if item.default_factory is MISSING else item.default_factory()


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _guess(name: str) -> str:
    near = difflib.get_close_matches(name, _FIELDS, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; the fields are {', '.join(_FIELDS)}"


def _check_cwd(name: str, value: Any) -> None:
    if not isinstance(value, str) or not os.path.isabs(value) or "\x00" in value:  # noqa: PTH117 - a string, not a Path
        raise InvalidCommand(f"{name} must be an absolute path, not {value!r}")


def _check_names(name: str, value: Any) -> None:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise InvalidCommand(f"{name} must be a list of names, not {value!r}")


def _check_variables(name: str, value: Any) -> None:
    _check_names(name, value)
    for item in value:
        _check_variable(name, item)
        if item.startswith(SECRET_PREFIX):
            raise InvalidCommand(f"{name}: {item} is a secret; put it into secrets, so that it is masked")
        if item.startswith(OWN_PREFIX):
            raise InvalidCommand(f"{name}: {item} is a setting of Posthouse, which commands cannot inherit")


def _check_variable(name: str, variable: Any) -> None:
    if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable):
        raise InvalidCommand(f"{name}: {variable!r} is not a valid name of an environment variable")


def _check_mapping(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise InvalidCommand(f"{name} must be a JSON object, not {value!r}")


def _check_environment(name: str, value: Any) -> None:
    _check_mapping(name, value)
    for variable, text in value.items():
        _check_variable(name, variable)
        if not isinstance(text, str) or "\x00" in text:
            raise InvalidCommand(f"{name}: {variable} must be a string without NUL; write numbers in quotes")


def _check_secrets(name: str, value: Any) -> None:
    _check_mapping(name, value)
    for variable, reference in value.items():
        _check_variable(name, variable)
        if not isinstance(reference, str) or not is_secret_name(reference):
            # The value is not shown, because it may be a secret that was entered here by mistake.
            raise InvalidCommand(
                f"{name}: {variable} must be the name of a secret, not its value: letters, digits and . _ -"
            )


def _whole(low: int, high: int, *, optional: bool) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        if value is None and optional:
            return
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidCommand(f"{name} must be an integer from {low:,} to {high:,}, not {value!r}")

    return check


def _one_of(allowed: str) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        if value is not None and value != allowed:
            raise InvalidCommand(f'{name} must be null or "{allowed}", not {value!r}')

    return check


def _check_event(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and _EVENT.fullmatch(value)):
        raise InvalidCommand(f"{name} must be null or the name of an event such as order.paid, not {value!r}")


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "allow_dash": _check_names,
    "cwd": _check_cwd,
    "env": _check_environment,
    "secrets": _check_secrets,
    "inherit_env": _check_variables,
    "max_output_bytes": _whole(0, _MAX_OUTPUT, optional=False),
    "memory_mb": _whole(1, 16 * 1024 * 1024, optional=True),
    "cpu_seconds": _whole(1, 10_000_000, optional=True),
    "open_files": _whole(8, 1_000_000, optional=True),
    "exit_codes": _check_mapping,
    "progress": _one_of("lines"),
    "result": _one_of("json"),
    "emits": _check_event,
}
