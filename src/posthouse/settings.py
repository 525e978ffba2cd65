"""Settings: defaults < posthouse.toml < environment < flags. A field's help is its line in the reference."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias, get_type_hints

from posthouse.core.alerts import ORDINARY, chosen_types, destinations
from posthouse.core.duration import seconds
from posthouse.core.secret_names import SECRET_PREFIX
from posthouse.errors import ConfigurationError

ENV_PREFIX = "POSTHOUSE_"
FILE_NAME = "posthouse.toml"
SECRET_LENGTH = 32
MISSED_HEARTBEATS = 5
"""A worker that missed this many heartbeats is offline."""
LOG_LEVELS = ("debug", "info", "warning", "error", "off")
AUTO = "auto"
Variable: TypeAlias = str | tuple[str, float]
"""The setting that an application's environment variable sets, or that setting and its unit in seconds."""
DISPATCH_MODES = ("database", "redis", "hybrid")
_NOT_SETTINGS = {"POSTHOUSE_TEST_DATABASE_URL"}
_RETENTION_SUFFIX = "_retention_days"
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def _setting(default: Any, doc: str, *, secret: bool = False, minimum: float | None = None) -> Any:
    return field(default=default, metadata={"help": doc, "secret": secret, "minimum": minimum})


def _retention(what: str, more: str = "", *, default: float = 0.0) -> Any:
    """Named after a category of posthouse.retention_rules: see Settings.kept_days."""
    return _setting(default, f"Retention of {what}. 0: retention_days{more}.", minimum=0)


def default_data_dir() -> Path:
    root = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(root).expanduser() / "posthouse"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    database_url: str = _setting(
        "", "URL of the Postgres database. Empty: an embedded Postgres, started when needed.", secret=True
    )
    direct_url: str = _setting(
        "",
        "URL of the same Postgres without its pooler, for LISTEN and liveness locks. Needed only if "
        "database_url points to a transaction pooler.",
        secret=True,
    )
    data_dir: Path = field(
        default_factory=default_data_dir,
        metadata={"help": "Data directory of the embedded Postgres."},
    )
    remote_url: str = _setting(
        "", "URL of the Posthouse server that a remote worker connects to, instead of to the database."
    )
    remote_key: str = _setting("", "API key of a remote worker.", secret=True)
    public_url: str = _setting(
        "",
        "Address of the console as its users reach it, e.g. https://jobs.example.com. Log lines of failed "
        "jobs link to it. Empty: remote_url, or the address of `posthouse up`.",
    )
    storage_url: str = _setting(
        "", "Storage of artifacts: file:///folder or s3://bucket/prefix. Empty: a folder in data_dir."
    )
    max_artifact_bytes: int = _setting(10_737_418_240, "Maximum size of an artifact in bytes.", minimum=1)
    app: str = _setting(
        "", "Applications that `worker` and `up` load by default, as module:name, separated by commas."
    )
    capabilities: str = _setting("", "Capabilities of a worker, e.g. gpu or codec:h264, separated by commas.")
    worker_name: str = _setting(
        "",
        "Name of a worker. Empty: host name and process id. A worker that is disabled under a name set "
        "here stays disabled when it is restarted.",
    )
    worker_metadata: str = _setting(
        "", 'Metadata that is shown with a worker, as a JSON object, e.g. {"pod": "a-1"}.'
    )
    concurrency: int = _setting(100, "Maximum number of handlers that a worker runs concurrently.", minimum=1)
    processes: str = _setting(
        "1",
        "Number of child processes of `posthouse worker` and `posthouse up`, each a worker of its own. "
        "auto: one per core.",
    )
    process_slots: int = _setting(
        0,
        'Processes for handlers with runner="process", each for one job at a time. 0: one per core.',
        minimum=0,
    )
    max_jobs: int = _setting(
        0, "Number of jobs after which a child process is replaced by a new one. 0: never.", minimum=0
    )
    max_rss_mb: int = _setting(
        0, "Memory in MB above which a child process is replaced by a new one. 0: unlimited.", minimum=0
    )
    commands: bool = _setting(False, "Whether a worker also runs command jobs defined by operators.")
    command_slots: int = _setting(
        0,
        "Maximum number of commands that a worker runs concurrently. 0: four per core, at most concurrency.",
        minimum=0,
    )
    secrets_dir: str = _setting(
        "", "Folder with the secrets for commands, one file per secret, named like the secret."
    )
    heartbeat_seconds: float = _setting(
        5.0, "Interval between heartbeats, which renew the leases of running jobs.", minimum=0.05
    )
    lease_seconds: float = _setting(
        30.0,
        "Duration of a lease: a job is rescued when its worker has not renewed the lease for this long.",
        minimum=0.2,
    )
    drain_seconds: float = _setting(
        30.0, "How long running jobs may continue after SIGTERM before they are released.", minimum=0
    )
    cancel_grace_seconds: float = _setting(
        5.0, "How long a canceled or timed-out handler has to clean up.", minimum=0
    )
    poll_seconds: float = _setting(1.0, "Longest interval between polls of an empty queue.", minimum=0.01)
    batch_linger_seconds: float = _setting(
        0.1,
        "How long a batch that is not full waits for further jobs. Each job that becomes ready in this time "
        "extends it, up to ten times. 0: a batch takes the jobs that are ready.",
        minimum=0,
    )
    dispatch: str = _setting(
        "database",
        "How workers learn that jobs are ready. database: LISTEN/NOTIFY and polling. redis: Redis Streams, "
        "which are required. hybrid: Redis Streams, and polling while Redis is unreachable (extra: redis).",
    )
    redis_url: str = _setting(
        "",
        "URL of Redis or Valkey, for dispatch and live updates: redis://, rediss:// (TLS), unix://, "
        "redis+sentinel://host:26379,host:26379/service or redis+cluster://.",
        secret=True,
    )
    redis_pool_size: int = _setting(10, "Maximum number of Redis connections of a process.", minimum=4)
    crash_limit: int = _setting(
        3,
        "Number of worker or process crashes after which a job is dead-lettered as poison.",
        minimum=1,
    )
    rescue_grace_seconds: float = _setting(
        10.0, "After a Postgres restart, how long workers have to renew their leases.", minimum=0
    )
    rescue_jitter_seconds: float = _setting(
        0.5, "Rescued jobs are delayed by a random time up to this, so that not all start at once.", minimum=0
    )
    remote_grace_seconds: float = _setting(
        120.0,
        "After an outage of the API, how long remote workers have to renew their leases. A remote worker "
        "that cannot reach the server continues its jobs for this long after their leases expired. "
        "0: no grace.",
        minimum=0,
    )
    mismatch_seconds: float = _setting(
        3600.0,
        "How long a job whose payload only newer code accepts waits while no worker with newer code is "
        "connected; then it goes to the dead letter.",
        minimum=0,
    )
    rescue_seconds: float = _setting(
        1.0,
        "Interval at which a keeper looks for expired leases. The jobs of a worker whose loss is noticed are "
        "rescued at once.",
        minimum=0.05,
    )
    simple_claim_seconds: float = _setting(
        1800.0,
        "Duration of a claim of the simple worker API (/api/worker). Each progress report extends it.",
        minimum=1,
    )
    simple_heartbeat_seconds: float = _setting(
        30.0,
        "Interval at which workers of the simple worker API are to send heartbeats. Jobs are reserved for an "
        "idle worker with the preferred capabilities for twice as long.",
        minimum=0.1,
    )
    offline_seconds: float = _setting(
        0.0,
        "How long after its last heartbeat a worker is offline. 0: five times the heartbeat interval that "
        "the worker announced, at least its lease; ten times simple_heartbeat_seconds for workers of "
        "the simple worker API.",
        minimum=0,
    )
    retention_days: float = _setting(
        30.0, "Retention of finished jobs, and of all data below that has no retention of its own.", minimum=1
    )
    attempts_retention_days: float = _retention("earlier attempts of jobs", "; at most that of jobs")
    artifacts_retention_days: float = _setting(
        0.0, "Retention of artifacts after the end of their job. 0: as long as the job.", minimum=0
    )
    logs_retention_days: float = _retention("log lines of jobs", "; at most that of jobs")
    events_retention_days: float = _retention("events")
    samples_retention_days: float = _retention("per-minute samples")
    workers_retention_days: float = _retention("worker starts and stops")
    audit_retention_days: float = _retention("the audit log, which is deleted by whole months", default=365.0)
    actor: str = _setting("", "Your name in the audit log. Empty: user and host name.")
    max_payload_bytes: int = _setting(1_048_576, "Maximum size of a payload in bytes.", minimum=1)
    max_result_bytes: int = _setting(
        1_048_576, "Maximum size of the result of a job or step in bytes.", minimum=1
    )
    job_log_level: str = _setting(
        "info", "Lowest level of `job.log` lines that are stored: debug, info, warning, error, or off."
    )
    job_log_bytes: int = _setting(
        1_048_576, "Bytes of log and output stored per attempt; beyond that only the end is kept.", minimum=0
    )

    admin_secret: str = _setting(
        "",
        "Secret that is accepted as a super-admin key. At least 32 characters. Empty: disabled.",
        secret=True,
    )
    jwt_secret: str = _setting(
        "", "Secret that verifies JWTs of your identity provider (HS256).", secret=True
    )
    jwks_url: str = _setting("", "URL of the keys that verify JWTs of your identity provider (RS256, ES256).")
    jwt_audience: str = _setting("authenticated", "Required `aud` claim of a JWT.")
    jwt_issuer: str = _setting("", "Required `iss` claim of a JWT. Empty: not checked.")
    jwt_tenant_claim: str = _setting("app_metadata.tenant_id", "Claim of a JWT that holds the tenant.")
    jwt_role_claim: str = _setting("app_metadata.role", "Claim of a JWT that holds the role.")
    jwt_roles: str = _setting("", "Names of roles in JWTs, e.g. `owner=tenant-admin,member=tenant-viewer`.")
    session_seconds: float = _setting(43_200.0, "Maximum duration of a console session.", minimum=60)
    keys_per_tenant: int = _setting(
        100, "Maximum number of API keys per tenant that are neither revoked nor expired.", minimum=0
    )
    api_requests_per_second: float = _setting(
        100.0,
        "Rate limit per credential and server process, in requests per second. Worker keys are exempt. "
        "0: unlimited.",
        minimum=0,
    )
    api_burst: int = _setting(500, "Burst size of the rate limit, in requests.", minimum=1)
    trusted_proxies: str = _setting(
        "",
        "Addresses or networks of reverse proxies, separated by commas, whose X-Forwarded-For and "
        "X-Forwarded-Proto headers are trusted. Empty: none.",
    )
    body_timeout_seconds: float = _setting(
        20.0,
        "How long the body of a request may take to arrive; for file uploads, each piece of it.",
        minimum=0.1,
    )
    header_timeout_seconds: float = _setting(
        10.0,
        "How long a connection may stay open before the headers of its first request are complete, and "
        "between two requests while bytes arrive.",
        minimum=0.1,
    )
    auth_failures_per_minute: int = _setting(
        30,
        "Failed logins per minute and address before further ones are rejected. 0: unlimited.",
        minimum=0,
    )
    tracing: bool = _setting(
        False,
        "Whether to create OpenTelemetry spans for enqueues, waits, attempts and requests (extra: otel).",
    )
    metrics_token: str = _setting(
        "",
        "Bearer token for /metrics. Empty: a super-admin key is required, except on loopback.",
        secret=True,
    )
    metrics_hosts: str = _setting(
        "",
        "Host names, separated by commas, under which /metrics is served on loopback without credentials. "
        "localhost and IP addresses always are.",
    )
    metrics_max_tenants: int = _setting(
        50,
        "Maximum number of tenants that metrics list by name; further ones are counted as `other`.",
        minimum=0,
    )
    sse_heartbeat_seconds: float = _setting(
        15.0, "Interval between the comments that keep an event stream without events open.", minimum=0.1
    )
    sse_retry_seconds: float = _setting(
        1.0, "How long the client of an event stream waits before it reconnects.", minimum=0
    )
    max_streams: int = _setting(500, "Maximum number of event streams per server process.", minimum=0)
    max_streams_per_tenant: int = _setting(
        100, "Maximum number of event streams per tenant and server process.", minimum=1
    )
    max_streams_per_key: int = _setting(
        20, "Maximum number of event streams per credential and server process.", minimum=1
    )

    alert_webhook_url: str = _setting(
        "",
        "URLs that alerts are sent to, separated by commas. Slack and Discord are recognised by host; "
        "`name=slack+https://...` sets a name and a format.",
        secret=True,
    )
    alert_webhook_secret: str = _setting(
        "", "Secret for the signature of webhooks, which the receiver can verify.", secret=True
    )
    alert_types: str = _setting(
        ",".join(sorted(ORDINARY)),
        "Types of alerts to raise, or changes to the default, e.g. `+worker_shutdown`.",
    )
    alert_cooldown_seconds: float = _setting(
        300.0,
        "After an alert, how long further ones of the same type and subject are only counted.",
        minimum=0,
    )
    alert_timeout_seconds: float = _setting(10.0, "Timeout of a webhook request.", minimum=0.1)
    alert_private_addresses: bool = _setting(
        False, "Whether webhooks may be sent to private and loopback addresses."
    )
    alert_pattern_failures: int = _setting(
        5, "Number of failures with one subject or cause that raises a pattern alert.", minimum=2
    )
    alert_pattern_seconds: float = _setting(3600.0, "Period in which these failures are counted.", minimum=1)
    alert_stuck_seconds: float = _setting(
        300.0, "How long ready jobs may stay unclaimed before their queue is reported as stuck.", minimum=1
    )
    alert_transaction_age_seconds: float = _setting(
        900.0, "How long a transaction may stay open before an alert is raised.", minimum=1
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            minimum = item.metadata.get("minimum")
            value = getattr(self, item.name)
            if minimum is not None and not value >= minimum:  # NaN is not either
                raise ConfigurationError(f"{item.name} must be at least {minimum:g}, not {value:g}")
        if self.job_log_level.lower() not in LOG_LEVELS:
            raise ConfigurationError(
                f"job_log_level must be one of {', '.join(LOG_LEVELS)}, not {self.job_log_level!r}"
            )
        self._check_dispatch()
        if self.processes != AUTO and not (self.processes.isdecimal() and int(self.processes) > 0):
            raise ConfigurationError(
                f"processes must be a positive number or {AUTO!r}, not {self.processes!r}"
            )
        for name in ("admin_secret", "jwt_secret"):
            if 0 < len(getattr(self, name)) < SECRET_LENGTH:
                raise ConfigurationError(
                    f"{name} is too short: use at least {SECRET_LENGTH} characters, e.g. from "
                    "`openssl rand -base64 32`"
                )
        if self.jwt_secret and self.jwks_url:
            raise ConfigurationError("jwt_secret and jwks_url are both set: set only one of them")
        chosen_types(self.alert_types)
        destinations(self.alert_webhook_url)
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            raise ConfigurationError(
                f"lease_seconds ({self.lease_seconds:g}) must be at least twice "
                f"heartbeat_seconds ({self.heartbeat_seconds:g}), or live workers would lose their jobs"
            )

    def _check_dispatch(self) -> None:
        if self.dispatch not in DISPATCH_MODES:
            raise ConfigurationError(
                f"dispatch must be one of {', '.join(DISPATCH_MODES)}, not {self.dispatch!r}"
            )
        if self.dispatch != "database" and not self.redis_url:
            raise ConfigurationError(
                f"dispatch = {self.dispatch!r} needs Redis: set POSTHOUSE_REDIS_URL, "
                "e.g. redis://localhost:6379/0"
            )

    @property
    def offline_after(self) -> float | None:
        """The seconds after which a worker counts as offline; None: the time that each worker announces."""
        return self.offline_seconds or None

    def job_address(self, job_id: object) -> str:
        """Return the job's page in the console; empty if the address of the console is not known."""
        base = (self.public_url or self.remote_url).rstrip("/")
        return f"{base}/console/jobs/{job_id}" if base else ""

    def process_count(self) -> int:
        """Return the number of child processes of a worker."""
        return cores() if self.processes == AUTO else int(self.processes)

    def slots_of_processes(self) -> int:
        """Return how many processes run handlers with runner="process"."""
        return self.process_slots or cores()

    def kept_days(self) -> dict[str, float]:
        """Return the days of retention: ``default``, and those of each kind of data with its own setting."""
        own = {
            item.name.removesuffix(_RETENTION_SUFFIX): getattr(self, item.name)
            for item in fields(self)
            if item.name.endswith(_RETENTION_SUFFIX)
        }
        return {"default": self.retention_days, **{category: days for category, days in own.items() if days}}

    def masked(self) -> dict[str, Any]:
        """The settings in effect, secrets masked."""
        return {
            item.name: "********"
            if item.metadata.get("secret") and getattr(self, item.name)
            else str(getattr(self, item.name))
            if item.name == "data_dir"
            else getattr(self, item.name)
            for item in fields(self)
        }


def offline_default(heartbeat_seconds: float, lease_seconds: float) -> float:
    """Return after how many seconds without a heartbeat such a worker is offline."""
    return max(MISSED_HEARTBEATS * heartbeat_seconds, lease_seconds)


def load_settings(
    *,
    env: Mapping[str, str] | None = None,
    directory: Path | None = None,
    variables: Mapping[str, Variable] | None = None,
    **flags: Any,
) -> Settings:
    """The settings in effect. Flags that are None were not given.

    ``variables``: environment variables of applications that also set a setting. The variable of the setting
    itself takes precedence.
    """
    env = os.environ if env is None else env
    path = (directory or Path.cwd()) / FILE_NAME
    values: dict[str, Any] = {}
    values.update(_from_file(path))
    values.update(settings_of(variables or {}, env=env))
    variables_set = _from_environment(env)
    values.update(variables_set)
    values.update({name: value for name, value in flags.items() if value is not None})
    known = get_type_hints(Settings)
    labels = {name: ENV_PREFIX + name.upper() for name in variables_set}
    return Settings(
        **{name: _convert(name, value, known[name], labels.get(name, name)) for name, value in values.items()}
    )


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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
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


def settings_of(variables: Mapping[str, Variable], *, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the settings that an application's variables set. POSTHOUSE_ variables take precedence."""
    env = os.environ if env is None else env
    found: dict[str, Any] = {}
    known = get_type_hints(Settings)
    for variable, meaning in variables.items():
        name, unit = meaning if isinstance(meaning, tuple) else (meaning, None)
        _check_known(name, f"{variable}: ", name)
        value = env.get(variable, "")
        if value and not env.get(ENV_PREFIX + name.upper()):
            found[name] = (
                _convert(name, value, known[name], variable)
                if unit is None
                else _in_units(variable, value, unit)
            )
    return found


def _in_units(variable: str, value: str, unit: float) -> float:
    try:
        return float(value) * unit
    except ValueError:
        raise ConfigurationError(f"{variable} must be a number, not {value!r}") from None


def _check_known(name: str, where: str, shown: str) -> None:
    names = [item.name for item in fields(Settings)]
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    upper = shown.startswith(ENV_PREFIX)
    advice = (ENV_PREFIX + near[0].upper() if upper else near[0]) if near else ""
    hint = (
        f"; did you mean {advice}?" if advice else "; remove it, then `posthouse config` lists the settings"
    )
    raise ConfigurationError(f"{where}unknown setting {shown}{hint}")


def _convert(name: str, value: Any, kind: Any, label: str) -> Any:
    """Return the value of a setting; errors name it as ``label``."""
    try:
        if kind is bool:
            return _boolean(value)
        if kind is float:
            return _seconds(label, value) if name.endswith("_seconds") and _has_unit(value) else float(value)
        if kind is int:
            return _whole(value)
        if kind is Path:
            return Path(value).expanduser()
        return str(value) if name == "processes" else _text(value)
    except (TypeError, ValueError):
        raise ConfigurationError(f"{label} must be {_KINDS[kind]}, not {value!r}") from None


_KINDS = {bool: "true or false", float: "a number", int: "an integer", Path: "a path", str: "a string"}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(value)


def _seconds(name: str, text: str) -> float:
    try:
        return seconds(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None


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
