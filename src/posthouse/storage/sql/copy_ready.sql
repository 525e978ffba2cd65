-- Stores plain jobs in bulk.
copy posthouse.ready (
  id, queued_at, scheduled_for, priority, max_attempts, timeout_seconds, tenant_id, kind, queue, source,
  payload, correlation_id, subject, source_ref, created_by, retry, parent_id, requires,
  prefers, lane)
from stdin (format binary)
