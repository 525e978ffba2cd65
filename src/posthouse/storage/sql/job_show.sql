-- One job with all its columns.
select
  id, tenant_id, kind, queue, status, place, priority, correlation_id, subject, scheduled_for, queued_at,
  started_at, attempt_started_at, finished_at, attempt_count, max_attempts, worker_id, progress_percent,
  current_step, blockers, last_error, payload, result, error, dedupe_key, order_key, source, source_ref,
  created_by, parent_id, depends_on, generation, crashes, snoozes, timeout_seconds, lease_expires_at,
  cancel_requested_at, erased_at, progress_message
from posthouse.jobs
where id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
