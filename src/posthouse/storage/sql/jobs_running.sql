-- The jobs that have been running longest. All columns of a list, so that they read as jobs of a list do.
select
  id, tenant_id, kind, queue, status, place, priority, correlation_id, subject, source, scheduled_for, queued_at,
  started_at, attempt_started_at, finished_at, attempt_count, max_attempts, worker_id, progress_percent,
  current_step, blockers, last_error
from posthouse.jobs
where id = any (array(select id from posthouse.running order by attempt_started_at, id limit %(limit)s))
  and status = 'running'
order by attempt_started_at, id
