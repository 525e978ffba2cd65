"""The one error tree. Every error has a stable ``code`` that logs, the command line and HTTP share.

PosthouseError
├── ConfigurationError      a setting is missing or invalid
│   ├── EmbeddedUnavailable     no database URL, and the embedded Postgres cannot be started
│   └── InvalidCommand          invalid command definition
├── DatabaseUnavailable     Postgres cannot be reached
├── RedisUnavailable        Redis cannot be used
├── ServerUnavailable       a Posthouse server cannot be reached, or cannot reach its database
├── StorageUnavailable      the artifact storage is unreachable or refused the request
├── RequestRejected         a Posthouse server rejected a request of a worker
├── DatabaseRequired        a remote worker has no database connection
├── ClientClosed            the client is closed
├── SchemaError             the schema is missing, older or newer than this version
├── InvalidJob              invalid job
│   ├── InvalidPayload          the payload does not match the parameters of the job
│   ├── PayloadTooLarge         the payload exceeds the size limit
│   ├── InactiveDefinition      the definition of its kind is inactive
│   └── UnknownDefinition       there is no definition of its kind
├── InvalidDefinition       invalid definition
│   └── DefinitionExists        a definition with this key already exists
├── DefinitionNotFound      definition not found
├── InvalidLimit            invalid limit
├── LimitNotFound           limit not found
├── WorkerNotFound          worker not found
├── InvalidTrigger          invalid trigger
│   ├── InvalidTemplate         invalid payload template
│   └── InvalidSchedule         invalid cron expression, interval, time zone or policy
├── TriggerNotFound         trigger not found (for this tenant)
├── InvalidAlert            invalid alert: its type does not exist
├── InvalidEvent            invalid event
├── EventNotFound           event not found (for this tenant)
├── TemplateError           a payload template cannot be rendered
├── DuplicateJob            another job holds the dedupe key, and the policy is reject
├── JobNotFound             job not found (for this tenant)
├── FailureNotFound         failure group not found
├── BulkChangeNotFound      bulk change not found
├── ErasureNotFound         erasure not found
├── InvalidBulkChange       invalid bulk change
├── IllegalTransition       the status of the job does not allow the change
├── NotAuthenticated        missing or invalid credentials
├── Forbidden               permission denied
├── KeyNotFound             API key not found (for this tenant)
├── InvalidKey              invalid API key
├── TooManyKeys             the tenant has reached its number of API keys
├── TenantNotFound          tenant not found
├── TenantExists            a tenant with this name already exists
├── TenantActive            the tenant has unfinished jobs
├── InvalidTenant           invalid tenant
├── TooManyRequests         rate limit exceeded
├── InvalidRequest          invalid HTTP request
│   ├── InvalidFilter           invalid filter
│   └── IdempotencyKeyReused    the Idempotency-Key was used with a different request
├── EditConflict            the resource was modified since it was loaded
├── TooManyStreams          stream limit reached for this credential
├── StreamLimitReached      the server has reached its stream limit, or is shutting down
├── InvalidReport           invalid progress report
├── InvalidResult           a handler returned an object that cannot be stored as JSON
├── ArtifactNotFound        artifact not found (for this tenant)
├── InvalidArtifact         invalid artifact
│   ├── ArtifactTooLarge        the artifact exceeds the size limit
│   ├── WrongOffset             a chunk does not start at the current upload offset
│   └── UnsafeArchive           an archive would write outside its folder or exceed the limit
├── LeaseLost               the lease was lost: nothing was written
├── CommandError            a command failed
│   ├── CommandStartError       it cannot be started, and a retry would not help
│   ├── CommandFailed           it ended with an error
│   └── CommandInterrupted      its supervising process died
├── JobFailed               a waited-for job did not succeed
└── WaitTimeout             a waited-for job did not finish before the timeout
"""

from __future__ import annotations

from typing import ClassVar


class PosthouseError(Exception):
    """Posthouse error."""

    code: ClassVar[str] = "posthouse_error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigurationError(PosthouseError):
    """A setting is missing or invalid."""

    code = "configuration_error"


class EmbeddedUnavailable(ConfigurationError):
    """No database URL is set, and the embedded Postgres cannot be started."""

    code = "embedded_unavailable"


class InvalidCommand(ConfigurationError):
    """Invalid command definition."""

    code = "invalid_command"


class DatabaseUnavailable(PosthouseError):
    """Cannot connect to Postgres."""

    code = "database_unavailable"


class RedisUnavailable(PosthouseError):
    """Redis cannot be used."""

    code = "redis_unavailable"


class ServerUnavailable(PosthouseError):
    """Cannot connect to the Posthouse server, or the server cannot connect to its database."""

    code = "server_unavailable"


class StorageUnavailable(PosthouseError):
    """The artifact storage is unreachable or refused the request."""

    code = "storage_unavailable"


class RequestRejected(PosthouseError):
    """The Posthouse server rejected the request."""

    code = "request_rejected"


class DatabaseRequired(PosthouseError):
    """A remote worker has no database connection."""

    code = "database_required"


class ClientClosed(PosthouseError):
    """The client is closed."""

    code = "client_closed"


class SchemaError(PosthouseError):
    """The database schema does not match this version of Posthouse."""

    code = "schema_error"


class InvalidJob(PosthouseError):
    """Invalid job."""

    code = "invalid_job"


class InvalidPayload(InvalidJob):
    """The payload does not match the parameters of the job."""

    code = "invalid_payload"


class PayloadTooLarge(InvalidJob):
    """The payload exceeds the size limit."""

    code = "payload_too_large"


class InactiveDefinition(InvalidJob):
    """The definition of this kind is inactive: no jobs are accepted."""

    code = "inactive_definition"


class UnknownDefinition(InvalidJob):
    """There is no definition of this kind."""

    code = "unknown_definition"


class InvalidDefinition(PosthouseError):
    """Invalid definition."""

    code = "invalid_definition"


class DefinitionExists(InvalidDefinition):
    """A definition with this key already exists."""

    code = "definition_exists"


class DefinitionNotFound(PosthouseError):
    """Definition not found."""

    code = "definition_not_found"


class InvalidLimit(PosthouseError):
    """Invalid limit."""

    code = "invalid_limit"


class LimitNotFound(PosthouseError):
    """Limit not found."""

    code = "limit_not_found"


class WorkerNotFound(PosthouseError):
    """Worker not found."""

    code = "worker_not_found"


class InvalidTrigger(PosthouseError):
    """Invalid trigger."""

    code = "invalid_trigger"


class InvalidTemplate(InvalidTrigger):
    """Invalid payload template."""

    code = "invalid_template"


class InvalidSchedule(InvalidTrigger):
    """Invalid schedule: check the cron expression, interval, time zone and policies."""

    code = "invalid_schedule"


class TriggerNotFound(PosthouseError):
    """Trigger not found."""

    code = "trigger_not_found"


class InvalidAlert(PosthouseError):
    """The alert is invalid: its type does not exist."""

    code = "invalid_alert"


class InvalidEvent(PosthouseError):
    """Invalid event."""

    code = "invalid_event"


class EventNotFound(PosthouseError):
    """Event not found."""

    code = "event_not_found"


class TemplateError(PosthouseError):
    """The payload template cannot be rendered."""

    code = "template_error"


class DuplicateJob(PosthouseError):
    """Another job holds this dedupe key."""

    code = "duplicate_job"


class JobNotFound(PosthouseError):
    """Job not found."""

    code = "job_not_found"


class FailureNotFound(PosthouseError):
    """Failure group not found."""

    code = "failure_not_found"


class BulkChangeNotFound(PosthouseError):
    """Bulk change not found."""

    code = "bulk_change_not_found"


class ErasureNotFound(PosthouseError):
    """Erasure not found."""

    code = "erasure_not_found"


class InvalidBulkChange(PosthouseError):
    """Invalid bulk change."""

    code = "invalid_bulk_change"


class IllegalTransition(PosthouseError):
    """The status of the job does not allow this change."""

    code = "illegal_transition"


class NotAuthenticated(PosthouseError):
    """Missing or invalid credentials."""

    code = "not_authenticated"


class Forbidden(PosthouseError):
    """Permission denied."""

    code = "forbidden"


class KeyNotFound(PosthouseError):
    """API key not found."""

    code = "key_not_found"


class InvalidKey(PosthouseError):
    """Invalid API key."""

    code = "invalid_key"


class TooManyKeys(PosthouseError):
    """The tenant has reached its number of API keys."""

    code = "too_many_keys"


class TenantNotFound(PosthouseError):
    """Tenant not found."""

    code = "tenant_not_found"


class TenantExists(PosthouseError):
    """A tenant with this name already exists."""

    code = "tenant_exists"


class TenantActive(PosthouseError):
    """The tenant has unfinished jobs."""

    code = "tenant_active"


class InvalidTenant(PosthouseError):
    """Invalid tenant."""

    code = "invalid_tenant"


class TooManyRequests(PosthouseError):
    """Rate limit exceeded: wait before the next request."""

    code = "too_many_requests"

    def __init__(self, message: str | None = None, *, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class InvalidRequest(PosthouseError):
    """Invalid request."""

    code = "invalid_request"


class InvalidFilter(InvalidRequest):
    """Invalid filter."""

    code = "invalid_filter"

    def __init__(
        self, message: str | None = None, *, at: int = 0, to: int = 0, suggestion: str | None = None
    ) -> None:
        """``at``, ``to``: the range of the invalid text. ``suggestion``: a text that would be valid there."""
        super().__init__(message)
        self.at = at
        self.to = to
        self.suggestion = suggestion


class IdempotencyKeyReused(InvalidRequest):
    """The Idempotency-Key was already used with a different request."""

    code = "idempotency_key_reused"


class EditConflict(PosthouseError):
    """The resource was modified since you loaded it: reload and try again."""

    code = "edit_conflict"


class TooManyStreams(PosthouseError):
    """Stream limit reached for this credential."""

    code = "too_many_streams"


class StreamLimitReached(PosthouseError):
    """The server has reached its stream limit, or is shutting down."""

    code = "stream_limit_reached"


class InvalidReport(PosthouseError):
    """Invalid progress report."""

    code = "invalid_report"


class InvalidResult(PosthouseError):
    """A handler returned an object that cannot be stored as JSON."""

    code = "invalid_result"


class ArtifactNotFound(PosthouseError):
    """Artifact not found."""

    code = "artifact_not_found"


class InvalidArtifact(PosthouseError):
    """Invalid artifact."""

    code = "invalid_artifact"


class ArtifactTooLarge(InvalidArtifact):
    """The artifact exceeds the size limit."""

    code = "artifact_too_large"


class WrongOffset(InvalidArtifact):
    """The chunk does not start at the current upload offset."""

    code = "wrong_offset"


class UnsafeArchive(InvalidArtifact):
    """The archive is unsafe: it would write outside the target folder or exceed the size limit."""

    code = "unsafe_archive"


class LeaseLost(PosthouseError):
    """The lease on this job was lost: nothing was written."""

    code = "lease_lost"


class CommandError(PosthouseError):
    """The command failed."""

    code = "command_error"


class CommandStartError(CommandError):
    """The command cannot be started on this worker, and a retry would not help."""

    code = "command_start_error"


class CommandFailed(CommandError):
    """The command ended with an error."""

    code = "command_failed"


class CommandInterrupted(CommandError):
    """The command was lost: its supervising process died."""

    code = "command_interrupted"

    def __init__(self, message: str | None = None, *, may_have_run: bool = False) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class JobFailed(PosthouseError):
    """The job did not succeed."""

    code = "job_failed"


class WaitTimeout(PosthouseError):
    """The job did not finish before the timeout."""

    code = "wait_timeout"
