-- A place for COPY, which takes no table under row-level security: gone by the end of the transaction.
create temporary table posthouse_staged on commit drop as
select
  id, queued_at, scheduled_for, priority, max_attempts, timeout_seconds, tenant_id, kind, queue, source,
  payload, correlation_id, subject, source_ref, created_by, retry, parent_id, requires,
  prefers, lane
from posthouse.ready
with no data
