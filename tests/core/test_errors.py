"""The error tree: stable codes, and a drawing that shows all of it."""

import posthouse.errors
from posthouse.errors import PosthouseError

CODES = {
    "PosthouseError": "posthouse_error",
    "ConfigurationError": "configuration_error",
    "EmbeddedUnavailable": "embedded_unavailable",
    "InvalidCommand": "invalid_command",
    "DatabaseUnavailable": "database_unavailable",
    "ServerUnavailable": "server_unavailable",
    "RedisUnavailable": "redis_unavailable",
    "StorageUnavailable": "storage_unavailable",
    "RequestRejected": "request_rejected",
    "DatabaseRequired": "database_required",
    "ClientClosed": "client_closed",
    "SchemaError": "schema_error",
    "InvalidJob": "invalid_job",
    "InvalidPayload": "invalid_payload",
    "PayloadTooLarge": "payload_too_large",
    "InactiveDefinition": "inactive_definition",
    "UnknownDefinition": "unknown_definition",
    "InvalidDefinition": "invalid_definition",
    "DefinitionExists": "definition_exists",
    "DefinitionNotFound": "definition_not_found",
    "InvalidLimit": "invalid_limit",
    "LimitNotFound": "limit_not_found",
    "InvalidTrigger": "invalid_trigger",
    "InvalidTemplate": "invalid_template",
    "InvalidSchedule": "invalid_schedule",
    "TriggerNotFound": "trigger_not_found",
    "InvalidEvent": "invalid_event",
    "InvalidAlert": "invalid_alert",
    "EventNotFound": "event_not_found",
    "TemplateError": "template_error",
    "WorkerNotFound": "worker_not_found",
    "DuplicateJob": "duplicate_job",
    "JobNotFound": "job_not_found",
    "FailureNotFound": "failure_not_found",
    "BulkChangeNotFound": "bulk_change_not_found",
    "ErasureNotFound": "erasure_not_found",
    "InvalidBulkChange": "invalid_bulk_change",
    "IllegalTransition": "illegal_transition",
    "NotAuthenticated": "not_authenticated",
    "Forbidden": "forbidden",
    "KeyNotFound": "key_not_found",
    "InvalidKey": "invalid_key",
    "TooManyKeys": "too_many_keys",
    "TenantNotFound": "tenant_not_found",
    "TenantExists": "tenant_exists",
    "TenantActive": "tenant_active",
    "InvalidTenant": "invalid_tenant",
    "TooManyRequests": "too_many_requests",
    "InvalidRequest": "invalid_request",
    "InvalidFilter": "invalid_filter",
    "IdempotencyKeyReused": "idempotency_key_reused",
    "EditConflict": "edit_conflict",
    "InvalidReport": "invalid_report",
    "InvalidResult": "invalid_result",
    "TooManyStreams": "too_many_streams",
    "StreamLimitReached": "stream_limit_reached",
    "ArtifactNotFound": "artifact_not_found",
    "InvalidArtifact": "invalid_artifact",
    "ArtifactTooLarge": "artifact_too_large",
    "WrongOffset": "wrong_offset",
    "UnsafeArchive": "unsafe_archive",
    "LeaseLost": "lease_lost",
    "CommandError": "command_error",
    "CommandStartError": "command_start_error",
    "CommandFailed": "command_failed",
    "CommandInterrupted": "command_interrupted",
    "JobFailed": "job_failed",
    "WaitTimeout": "wait_timeout",
}


def tree(kind=PosthouseError, depth=0):
    yield depth, kind
    for child in kind.__subclasses__():
        if child.__module__ == "posthouse.errors":
            yield from tree(child, depth + 1)


def drawn():
    """(depth, name) of every line in the drawing."""
    lines = posthouse.errors.__doc__.splitlines()
    for line in lines[lines.index("PosthouseError") :]:
        if line.strip():
            name = line.lstrip("│├└─ ").split()[0]
            yield (len(line) - len(line.lstrip("│├└─ "))) // 4, name


def test_codes_never_change():
    assert {kind.__name__: kind.code for _, kind in tree()} == CODES


def test_every_code_is_used_once():
    codes = [kind.code for _, kind in tree()]
    assert len(set(codes)) == len(codes)


def test_the_drawing_shows_the_whole_tree():
    assert list(drawn()) == [(depth, kind.__name__) for depth, kind in tree()]


def test_an_error_without_a_message_says_what_it_is():
    for _, kind in tree():
        assert str(kind()) == kind.__doc__.strip()
        assert str(kind("this one")) == "this one"
