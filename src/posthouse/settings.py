"""Settings: defaults < posthouse.toml < environment < flags. A field's help is its line in the reference."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from posthouse.core.alerts import ORDINARY, chosen_types, destinations
from posthouse.core.duration import seconds
from posthouse.core.secret_names import SECRET_PREFIX
from posthouse.errors import ConfigurationError

ENV_PREFIX = "POSTHOUSE_"
FILE_NAME = "posthouse.toml"
SECRET_LENGTH = 32
LOG_LEVELS = ("debug", "info", "warning", "error", "off")
_NOT_SETTINGS = {"POSTHOUSE_TEST_DATABASE_URL"}
_OF_A_THING = "_retention_days"
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def _setting(default: Any, doc: str, *, secret: bool = False, minimum: float | None = None) -> Any:
    return field(default=default, metadata={"help": doc, "secret": secret, "minimum": minimum})


def _retention(what: str, more: str = "", *, default: float = 0.0) -> Any:
    """Named after a thing of posthouse.kept: see Settings.kept_days."""
    return _setting(default, f"How long to keep {what}. 0: as long as retention_days{more}.", minimum=0)


def default_data_dir() -> Path:
    root = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(root).expanduser() / "posthouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    database_url: str = _setting(
        "", "Postgres to use. Empty: an embedded one, started when needed.", secret=True
    )
    direct_url: str = _setting(
        "",
        "The same Postgres past its pooler, for LISTEN and liveness; needed only if database_url "
        "points to a transaction pooler.",
        secret=True,
    )
    data_dir: Path = field(
        default_factory=default_data_dir,
        metadata={"help": "Where the embedded Postgres keeps its data."},
    )
    remote_url: str = _setting(
        "", "A Posthouse server that a worker gets its jobs from over HTTP, instead of from the database."
    )
    remote_key: str = _setting("", "The API key of a remote worker.", secret=True)
    storage_url: str = _setting(
        "", "Where artifacts of jobs are kept: file:///folder or s3://bucket/prefix. Empty: in data_dir."
    )
    max_artifact_bytes: int = _setting(10_737_418_240, "Largest artifact that a job may keep.", minimum=1)
    app: str = _setting(
        "", "Apps that `worker` and `up` load if none is given: module:name, several with commas."
    )
    capabilities: str = _setting(
        "", "What a worker can do that others cannot: gpu, codec:h264 … several with commas."
    )
    worker_name: str = _setting(
        "",
        "What a worker is called. Empty: its host and process. One that was disabled by a name given "
        "here stays so when it is started again.",
    )
    worker_metadata: str = _setting(
        "", 'What to keep of a worker for people to see, as a JSON object: {"pod": "a-1"}.'
    )
    concurrency: int = _setting(100, "Handlers that a worker runs at the same time.", minimum=1)
    processes: int = _setting(
        0,
        'Processes for handlers with runner="process", each for one job at a time. 0: one for each core.',
        minimum=0,
    )
    commands: bool = _setting(False, "Whether a worker also runs commands that operators have defined.")
    command_slots: int = _setting(
        0,
        "Commands that a worker runs at the same time. 0: four for each core, but no more than concurrency.",
        minimum=0,
    )
    secrets_dir: str = _setting(
        "", "A folder of files that hold secrets for commands, each named like its secret."
    )
    heartbeat_seconds: float = _setting(
        5.0, "How often a worker renews the leases of its jobs.", minimum=0.05
    )
    lease_seconds: float = _setting(
        30.0, "How long a job stays with a worker that has stopped renewing.", minimum=0.2
    )
    drain_seconds: float = _setting(
        30.0, "How long running jobs may go on after SIGTERM before they are released.", minimum=0
    )
    cancel_grace_seconds: float = _setting(
        5.0, "How long a canceled or timed-out handler may clean up.", minimum=0
    )
    poll_seconds: float = _setting(1.0, "Longest pause between two looks into an empty queue.", minimum=0.01)
    crash_limit: int = _setting(
        3,
        "Deaths of workers or processes after which the job they had in common goes to the dead letter.",
        minimum=1,
    )
    rescue_grace_seconds: float = _setting(
        10.0, "After a restart of Postgres, how long workers may take to renew.", minimum=0
    )
    retention_days: float = _setting(
        30.0, "How long ended jobs are kept, and all below that have no days of their own.", minimum=1
    )
    attempts_retention_days: float = _retention(
        "attempts that did not end their job", "; never longer than jobs"
    )
    logs_retention_days: float = _retention("log lines of jobs", "; never longer than jobs")
    events_retention_days: float = _retention("events")
    samples_retention_days: float = _retention("the counts of each minute")
    workers_retention_days: float = _retention("when workers came and went")
    audit_retention_days: float = _retention("what people did; whole months are dropped", default=365.0)
    actor: str = _setting("", "Who you are, for the audit of what you do. Empty: your user and host.")
    max_payload_bytes: int = _setting(1_048_576, "Largest payload accepted.", minimum=1)
    max_result_bytes: int = _setting(1_048_576, "Largest result stored, of a job or a step.", minimum=1)
    job_log_level: str = _setting(
        "info", "Lines of `job.log` from this level up are stored: debug, info, warning, error, or off."
    )
    job_log_bytes: int = _setting(
        1_048_576, "Log and output stored of one attempt; of what comes after that only the end.", minimum=0
    )

    admin_secret: str = _setting(
        "",
        "Counts as the key of a super-admin. At least 32 characters; empty: there is none.",
        secret=True,
    )
    jwt_secret: str = _setting(
        "", "Takes tokens of your own login that are signed with this (HS256).", secret=True
    )
    jwks_url: str = _setting(
        "", "Takes tokens of your own login that are signed with a key from there (RS256, ES256)."
    )
    jwt_audience: str = _setting("authenticated", "Whom a token must be for: its claim `aud`.")
    jwt_issuer: str = _setting(
        "", "Who must have made a token: its claim `iss`. Empty: anybody with the key."
    )
    jwt_tenant_claim: str = _setting("app_metadata.tenant_id", "Where a token names its tenant.")
    jwt_role_claim: str = _setting("app_metadata.role", "Where a token names its role.")
    jwt_roles: str = _setting(
        "", "What roles are called in tokens: `owner=tenant-admin,member=tenant-viewer`."
    )
    session_seconds: float = _setting(
        43_200.0, "How long a login of the console lasts, at the most.", minimum=60
    )
    api_rate: float = _setting(
        0.0,
        "Requests a second that one credential may make, on each server process. 0: any number.",
        minimum=0,
    )
    api_burst: int = _setting(100, "Requests that it may make at once, before that counts.", minimum=1)
    auth_failures: int = _setting(
        30,
        "Wrong credentials that an address may send in a minute before it must wait. 0: any number.",
        minimum=0,
    )
    tracing: bool = _setting(
        False, "Whether to make OpenTelemetry spans of enqueues, waits, attempts and requests: [otel]."
    )
    metrics_token: str = _setting(
        "",
        "What a collector of metrics shows as Bearer. Empty: a key of a super-admin, or none on loopback.",
        secret=True,
    )
    metrics_tenants: int = _setting(
        50, "Tenants that metrics show by name, those that came first; the rest as `other`.", minimum=0
    )
    sse_clients: int = _setting(500, "Live streams that one server process keeps open.", minimum=0)
    sse_clients_per_key: int = _setting(20, "Of these, how many one credential may have.", minimum=1)

    alert_webhook_url: str = _setting(
        "",
        "Where alerts are sent, several with commas. Slack and Discord are known by their host; "
        "`name=slack+https://...` sets both a name and a shape.",
        secret=True,
    )
    alert_webhook_secret: str = _setting(
        "", "Signs what is sent, so that the receiver can tell that it is from here.", secret=True
    )
    alert_types: str = _setting(
        ",".join(sorted(ORDINARY)), "Alerts that are raised; or changes to this list: `+worker_shutdown`."
    )
    alert_cooldown_seconds: float = _setting(
        300.0, "After an alert, how long others of its type and subject are only counted.", minimum=0
    )
    alert_timeout_seconds: float = _setting(
        10.0, "How long a destination may take to answer, all in all.", minimum=0.1
    )
    alert_private_addresses: bool = _setting(
        False, "Whether alerts may go to private addresses and to this machine."
    )
    alert_pattern_failures: int = _setting(
        5, "Failures of one subject, or with one cause, that make a pattern.", minimum=2
    )
    alert_pattern_seconds: float = _setting(3600.0, "The time within which they make one.", minimum=1)
    alert_stuck_seconds: float = _setting(
        300.0, "How long ready jobs may go unclaimed before their queue counts as stuck.", minimum=1
    )
    alert_horizon_seconds: float = _setting(
        900.0, "How long a transaction may stay open before it is told of.", minimum=1
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            minimum = item.metadata.get("minimum")
            value = getattr(self, item.name)
            if minimum is not None and not value >= minimum:  # NaN is not either
                raise ConfigurationError(f"{item.name} must be at least {minimum:g}, not {value:g}")
        if self.job_log_level.lower() not in LOG_LEVELS:
            raise ConfigurationError(
                f"job_log_level is one of {', '.join(LOG_LEVELS)}, not {self.job_log_level!r}"
            )
        for name in ("admin_secret", "jwt_secret"):
            if 0 < len(getattr(self, name)) < SECRET_LENGTH:
                raise ConfigurationError(
                    f"{name} can be guessed: make it at least {SECRET_LENGTH} characters long, as "
                    "`openssl rand -base64 32` does"
                )
        if self.jwt_secret and self.jwks_url:
            raise ConfigurationError("tokens are checked by jwt_secret or by jwks_url: set one of them")
        chosen_types(self.alert_types)
        destinations(self.alert_webhook_url)
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            raise ConfigurationError(
                f"lease_seconds ({self.lease_seconds:g}) must be at least twice "
                f"heartbeat_seconds ({self.heartbeat_seconds:g}), or live workers would lose their jobs"
            )

    def kept_days(self) -> dict[str, float]:
        """Days by thing, as retention takes them: ``default``, and each that has a setting of its own."""
        own = {
            item.name.removesuffix(_OF_A_THING): getattr(self, item.name)
            for item in fields(self)
            if item.name.endswith(_OF_A_THING)
        }
        return {"default": self.retention_days, **{thing: days for thing, days in own.items() if days}}

    def shown(self) -> dict[str, Any]:
        """The settings in effect, secrets masked."""
        return {
            item.name: "********"
            if item.metadata.get("secret") and getattr(self, item.name)
            else str(getattr(self, item.name))
            if item.name == "data_dir"
            else getattr(self, item.name)
            for item in fields(self)
        }


def load_settings(
    *, env: Mapping[str, str] | None = None, directory: Path | None = None, **flags: Any
) -> Settings:
    """The settings in effect. Flags that are None were not given."""
    env = os.environ if env is None else env
    path = (directory or Path.cwd()) / FILE_NAME
    values: dict[str, Any] = {}
    values.update(_from_file(path))
    values.update(_from_environment(env))
    values.update({name: value for name, value in flags.items() if value is not None})
    known = get_type_hints(Settings)
    return Settings(**{name: _convert(name, value, known[name]) for name, value in values.items()})


def setting_sources(*, env: Mapping[str, str] | None = None, directory: Path | None = None) -> dict[str, str]:
    """Where each setting came from: default, file or environment."""
    sources = {item.name: "default" for item in fields(Settings)}
    sources.update(dict.fromkeys(_from_file((directory or Path.cwd()) / FILE_NAME), "file"))
    sources.update(dict.fromkeys(_from_environment(os.environ if env is None else env), "environment"))
    return sources


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        values = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    for name in values:
        _check_known(name, f"{path.name}: ", name)
    return values


def _from_environment(env: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for variable, value in env.items():
        if not variable.startswith(ENV_PREFIX) or variable in _NOT_SETTINGS:
            continue
        if variable.startswith(SECRET_PREFIX):
            continue
        name = variable.removeprefix(ENV_PREFIX).lower()
        _check_known(name, "", variable)
        if value != "":
            found[name] = value
    return found


def _check_known(name: str, where: str, shown: str) -> None:
    names = [item.name for item in fields(Settings)]
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    upper = shown.startswith(ENV_PREFIX)
    advice = (ENV_PREFIX + near[0].upper() if upper else near[0]) if near else ""
    hint = f"; did you mean {advice}?" if advice else "; `posthouse config` lists the settings"
    raise ConfigurationError(f"{where}unknown setting {shown}{hint}")


def _convert(name: str, value: Any, kind: Any) -> Any:
    try:
        if kind is bool:
            return _boolean(value)
        if kind is float:
            return seconds(value) if name.endswith("_seconds") and _has_unit(value) else float(value)
        if kind is int:
            return _whole(value)
        if kind is Path:
            return Path(value).expanduser()
    except (TypeError, ValueError):
        raise ConfigurationError(f"{name} must be {kind.__name__}, not {value!r}") from None
    return value


def _whole(value: Any) -> int:
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError(value)
    return number


def _has_unit(value: Any) -> bool:
    return isinstance(value, str) and value[-1:].isalpha()


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise ValueError(text)
