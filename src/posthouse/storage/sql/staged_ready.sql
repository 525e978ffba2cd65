-- Moves staged jobs into ready, in the order in which they were stored.
insert into posthouse.ready (
  id, queued_at, scheduled_for, priority, max_attempts, timeout_seconds, tenant_id, kind, queue, source,
  payload, correlation_id, subject, source_ref, created_by, retry, parent_id, requires,
  prefers, lane)
select * from pg_temp.posthouse_staged order by ctid
