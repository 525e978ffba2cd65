-- These jobs, newest first.
select
  id, tenant_id, kind, queue, status, place, priority, correlation_id, subject, source, scheduled_for, queued_at,
  started_at, attempt_started_at, finished_at, attempt_count, max_attempts, worker_id, progress_percent,
  current_step, blockers, last_error
from posthouse.jobs
where id = any (%(ids)s::uuid[])
order by id desc
