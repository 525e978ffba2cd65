"""The one error tree. Every error has a stable ``code`` that logs, the command line and HTTP share.

PosthouseError
├── ConfigurationError      a setting is wrong or missing
│   ├── EmbeddedUnavailable     no Postgres given and none can be started here
│   └── InvalidCommand          a command definition is wrong
├── DatabaseUnavailable     Postgres cannot be reached
├── ServerUnavailable       a Posthouse server cannot be reached, or cannot reach its database
├── StorageUnavailable      what keeps the files of jobs does not answer, or refuses
├── Refused                 a Posthouse server does not take what a worker sent
├── NoDatabase              this worker has no database
├── ClientClosed            the client was closed
├── SchemaError             the schema is missing, older or newer than this version
├── InvalidJob              the request to enqueue is wrong
│   ├── InvalidPayload          the payload is not what the job takes
│   ├── PayloadTooLarge         the payload is over the limit
│   └── InactiveDefinition      its kind was deactivated
├── InvalidDefinition       a definition cannot be like this
├── DefinitionNotFound      no such definition
├── InvalidLimit            a limit cannot be like this
├── LimitNotFound           no such limit
├── WorkerNotFound          no such worker
├── InvalidTrigger          a trigger cannot be like this
│   ├── InvalidTemplate         its payload template is wrong
│   └── InvalidSchedule         its cron expression, interval, time zone or policy is wrong
├── TriggerNotFound         no such trigger (for this tenant)
├── InvalidEvent            an event cannot be like this
├── EventNotFound           no such event (for this tenant)
├── TemplateError           a payload template cannot be filled in
├── DuplicateJob            the dedupe key is taken, and the policy says reject
├── JobNotFound             no such job (for this tenant)
├── FailureNotFound         no such failure group
├── BulkChangeNotFound      no such bulk change
├── InvalidBulkChange       a bulk change cannot be like this
├── IllegalTransition       the job's status does not allow this
├── NotAuthenticated        no credential, or none that is good
├── Forbidden               the credential does not allow this
├── KeyNotFound             no such API key (for this tenant)
├── InvalidKey              an API key cannot be like this
├── TenantNotFound          no such tenant
├── TenantExists            there is a tenant of that name
├── TenantActive            a tenant has jobs that have not ended
├── InvalidTenant           a tenant cannot be like this
├── TooManyRequests         slower, please
├── InvalidRequest          an HTTP request is wrong
│   ├── InvalidFilter           a line of the filter language is wrong
│   └── IdempotencyKeyReused    its Idempotency-Key came with another request before
├── ChangedMeanwhile        what was to be changed is not what was looked at
├── TooManyStreams          this credential has as many live streams as it may have
├── ServerFull              this server process has all the live streams that it takes
├── InvalidReport           what a job tells of itself cannot be stored
├── ArtifactNotFound        no such artifact (for this tenant)
├── InvalidArtifact         an artifact cannot be like this
│   ├── ArtifactTooLarge        it is over the limit
│   ├── WrongOffset             a piece of it does not begin where the last one ended
│   └── UnsafeArchive           an archive that would write where it must not, or too much
├── LeaseLost               the lease is no longer ours: nothing was written
├── CommandError            a command did not do its work
│   ├── CommandUnstartable      it cannot be started, and a retry would not help
│   ├── CommandFailed           it ended, and not well
│   └── CommandLost             it was ended together with the process that looked after it
├── JobFailed               a waited-for job ended without success
└── WaitTimeout             a waited-for job did not end in time
"""

from __future__ import annotations

from typing import ClassVar


class PosthouseError(Exception):
    """Something went wrong in Posthouse."""

    code: ClassVar[str] = "posthouse_error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigurationError(PosthouseError):
    """A setting is wrong or missing."""

    code = "configuration_error"


class EmbeddedUnavailable(ConfigurationError):
    """No Postgres was given and none can be started here."""

    code = "embedded_unavailable"


class InvalidCommand(ConfigurationError):
    """A command definition is wrong."""

    code = "invalid_command"


class DatabaseUnavailable(PosthouseError):
    """Postgres cannot be reached."""

    code = "database_unavailable"


class ServerUnavailable(PosthouseError):
    """The Posthouse server cannot be reached, or cannot reach its database."""

    code = "server_unavailable"


class StorageUnavailable(PosthouseError):
    """What keeps the files of jobs does not answer, or refuses."""

    code = "storage_unavailable"


class Refused(PosthouseError):
    """The Posthouse server does not take what was sent."""

    code = "refused"


class NoDatabase(PosthouseError):
    """A remote worker has no database."""

    code = "no_database"


class ClientClosed(PosthouseError):
    """The client was closed."""

    code = "client_closed"


class SchemaError(PosthouseError):
    """The database schema does not fit this version of Posthouse."""

    code = "schema_error"


class InvalidJob(PosthouseError):
    """The request to enqueue a job is wrong."""

    code = "invalid_job"


class InvalidPayload(InvalidJob):
    """The payload is not what the job takes."""

    code = "invalid_payload"


class PayloadTooLarge(InvalidJob):
    """The payload is larger than the limit."""

    code = "payload_too_large"


class InactiveDefinition(InvalidJob):
    """Jobs of this kind are not taken: its definition was deactivated."""

    code = "inactive_definition"


class InvalidDefinition(PosthouseError):
    """The definition of this kind of job is wrong."""

    code = "invalid_definition"


class DefinitionNotFound(PosthouseError):
    """There is no such definition."""

    code = "definition_not_found"


class InvalidLimit(PosthouseError):
    """The limit is wrong."""

    code = "invalid_limit"


class LimitNotFound(PosthouseError):
    """There is no such limit."""

    code = "limit_not_found"


class WorkerNotFound(PosthouseError):
    """There is no such worker."""

    code = "worker_not_found"


class InvalidTrigger(PosthouseError):
    """A trigger cannot be like this."""

    code = "invalid_trigger"


class InvalidTemplate(InvalidTrigger):
    """A payload template is wrong."""

    code = "invalid_template"


class InvalidSchedule(InvalidTrigger):
    """The schedule is wrong: its cron expression, interval, time zone or policy."""

    code = "invalid_schedule"


class TriggerNotFound(PosthouseError):
    """There is no such trigger."""

    code = "trigger_not_found"


class InvalidEvent(PosthouseError):
    """An event cannot be like this."""

    code = "invalid_event"


class EventNotFound(PosthouseError):
    """There is no such event."""

    code = "event_not_found"


class TemplateError(PosthouseError):
    """A payload template cannot be filled in."""

    code = "template_error"


class DuplicateJob(PosthouseError):
    """The dedupe key is taken by another job."""

    code = "duplicate_job"


class JobNotFound(PosthouseError):
    """There is no such job."""

    code = "job_not_found"


class FailureNotFound(PosthouseError):
    """There is no such failure group."""

    code = "failure_not_found"


class BulkChangeNotFound(PosthouseError):
    """There is no such bulk change."""

    code = "bulk_change_not_found"


class InvalidBulkChange(PosthouseError):
    """The bulk change is wrong."""

    code = "invalid_bulk_change"


class IllegalTransition(PosthouseError):
    """The job's status does not allow this."""

    code = "illegal_transition"


class NotAuthenticated(PosthouseError):
    """No credential was given, or none that is good."""

    code = "not_authenticated"


class Forbidden(PosthouseError):
    """The credential does not allow this."""

    code = "forbidden"


class KeyNotFound(PosthouseError):
    """There is no such key."""

    code = "key_not_found"


class InvalidKey(PosthouseError):
    """A key cannot be like this."""

    code = "invalid_key"


class TenantNotFound(PosthouseError):
    """There is no such tenant."""

    code = "tenant_not_found"


class TenantExists(PosthouseError):
    """There is a tenant of that name already."""

    code = "tenant_exists"


class TenantActive(PosthouseError):
    """The tenant has jobs that have not ended."""

    code = "tenant_active"


class InvalidTenant(PosthouseError):
    """A tenant cannot be like this."""

    code = "invalid_tenant"


class TooManyRequests(PosthouseError):
    """There were too many requests: wait before the next one."""

    code = "too_many_requests"

    def __init__(self, message: str | None = None, *, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class InvalidRequest(PosthouseError):
    """The request is wrong."""

    code = "invalid_request"


class InvalidFilter(InvalidRequest):
    """The filter is wrong."""

    code = "invalid_filter"

    def __init__(
        self, message: str | None = None, *, at: int = 0, to: int = 0, instead: str | None = None
    ) -> None:
        """What is wrong stands from ``at`` to ``to``; ``instead`` would be right there, if one thing is."""
        super().__init__(message)
        self.at = at
        self.to = to
        self.instead = instead


class IdempotencyKeyReused(InvalidRequest):
    """The Idempotency-Key came with another request before."""

    code = "idempotency_key_reused"


class ChangedMeanwhile(PosthouseError):
    """Somebody has changed it since it was looked at."""

    code = "changed_meanwhile"


class TooManyStreams(PosthouseError):
    """The credential has as many live streams open as it may have."""

    code = "too_many_streams"


class ServerFull(PosthouseError):
    """The server process has as many live streams open as it takes, or is stopping."""

    code = "server_full"


class InvalidReport(PosthouseError):
    """What a job tells of itself cannot be stored."""

    code = "invalid_report"


class ArtifactNotFound(PosthouseError):
    """There is no such artifact."""

    code = "artifact_not_found"


class InvalidArtifact(PosthouseError):
    """An artifact cannot be like this."""

    code = "invalid_artifact"


class ArtifactTooLarge(InvalidArtifact):
    """The artifact is larger than the limit."""

    code = "artifact_too_large"


class WrongOffset(InvalidArtifact):
    """The piece does not begin where the last one ended."""

    code = "wrong_offset"


class UnsafeArchive(InvalidArtifact):
    """The archive would write where it must not, or too much."""

    code = "unsafe_archive"


class LeaseLost(PosthouseError):
    """The lease on this job is no longer held: nothing was written."""

    code = "lease_lost"


class CommandError(PosthouseError):
    """A command did not do its work."""

    code = "command_error"


class CommandUnstartable(CommandError):
    """The command cannot be started here, and a retry would not help."""

    code = "command_unstartable"


class CommandFailed(CommandError):
    """The command ended, and not well."""

    code = "command_failed"


class CommandLost(CommandError):
    """The command was ended together with the process that looked after it."""

    code = "command_lost"


class JobFailed(PosthouseError):
    """The job ended without success."""

    code = "job_failed"


class WaitTimeout(PosthouseError):
    """The job did not end within the time given."""

    code = "wait_timeout"
