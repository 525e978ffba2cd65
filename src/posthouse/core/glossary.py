"""Terms explained by the console's tooltips and `posthouse glossary`, as in `docs/glossary.md`."""

from typing import Final

TERMS: Final[dict[str, str]] = {
    "job id": "A UUIDv7 that the client creates. A repeated enqueue with the same id creates no second job.",
    "kind": "The name of a type of job, such as welcome. It selects the handler and the definition.",
    "definition": (
        "The stored description of a kind: queue, priority, attempts, timeout, retry policy, payload "
        "schema, limits."
    ),
    "payload": (
        "The JSON object that a job carries to its handler. It is validated at enqueue and again before the "
        "handler runs."
    ),
    "result": "The JSON value that a handler returned.",
    "queue": (
        "A named group of jobs that workers choose to serve. A queue can be paused, resumed and drained."
    ),
    "priority": "An integer, lower first. urgent is 10, high 50, normal 100, low 200.",
    "subject": "An optional text that names what a job is about, such as a video or an order.",
    "correlation id": (
        "An id that follow-up jobs inherit, so that a pipeline can be listed as one. Without one, the id of "
        "the first job is used."
    ),
    "dedupe key": (
        "A text that at most one active job can have. What a second enqueue does is set by on_duplicate."
    ),
    "dedupe window": (
        "The time after an enqueue during which its dedupe key stays taken, even if the job ends sooner. "
        "For a trigger: the time in which equal payloads create one job."
    ),
    "order key": (
        "A text that puts jobs into an ordered group: they run one at a time, in the order of their enqueue."
    ),
    "progress": "The percentage, step and message that a handler reports while it runs.",
    "artifact": "A file that belongs to a job.",
    "lease": "The right to run a job for a limited time. The worker's heartbeat renews it.",
    "attempt": "One run of a handler for a job. Each attempt has a record with its outcome, times and error.",
    "snooze": "The handler asks to run again later. No attempt is spent.",
    "crash": "The end of a worker or of a handler's process while a job was running.",
    "dead letter": (
        "The status of a job that used up its attempts, snoozes or crashes, or whose payload no handler "
        "accepts. It keeps its payload and can be reopened."
    ),
    "timeout": "The longest time that an attempt may run.",
    "worker": "A process that claims jobs and runs handlers.",
    "slot": "One of the concurrency jobs that a worker can run at the same time.",
    "capability": "A word that a worker offers, such as gpu. A job can require or prefer it.",
    "heartbeat": "The regular message of a worker that renews its leases and shows that it is alive.",
    "limit": "A bound on how many jobs run at the same time or start in a period.",
    "rate": "A limit on starts per period, kept as a token bucket.",
    "burst": "How many jobs may start at once after a quiet period.",
    "weight": (
        "A tenant's share of the workers relative to other tenants; or the tokens that one start takes from "
        "a rate."
    ),
    "trigger": "A rule that creates jobs: for events of a name, or at certain times.",
    "event": "A named fact with a JSON context, stored in the transaction of the caller that emitted it.",
    "context": "The JSON object of an event, from which payload templates are filled.",
    "schedule": "A trigger with a cron expression or an interval, and a time zone.",
    "failure group": "Failed attempts of one tenant and kind whose errors have the same fingerprint.",
    "fingerprint": "A hash of the error's type, its location in your code, and its message without values.",
    "alert": "A message about a problem, sent to Slack, Discord or a webhook.",
    "tenant": "The owner of a job. Row-level security separates tenants in the database.",
    "role": "What a principal may do: super-admin, tenant-admin, tenant-viewer, event-emitter or worker.",
    "actor": "The name that the audit log shows for a change.",
    "redaction": "Masking of secrets in everything that is shown or logged.",
    "table": "Where a job's row is: ready, waiting, running or history in the schema posthouse.",
    "retention": "How long ended jobs and other records are kept before clean-up deletes them.",
}
