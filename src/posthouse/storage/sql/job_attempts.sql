-- The attempts of a job, first to last.
select
  generation, attempt, worker_id, started_at, finished_at, outcome, exit_code, signal, pid, error_type,
  error_message, traceback, stdout_tail, stderr_tail
from posthouse.attempts
where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
order by generation, started_at, attempt
