-- Jobs that match, newest first; goes on below the last id seen. By id, so that each place is read in order.
select
  id, tenant_id, kind, queue, status, place, priority, correlation_id, subject, scheduled_for, queued_at,
  started_at, attempt_started_at, finished_at, attempt_count, max_attempts, worker_id, progress_percent,
  current_step, blockers, last_error
from posthouse.jobs
where (%(statuses)s::text[] is null or status = any (%(statuses)s::text[]))
  and (%(kind)s::text is null or kind = %(kind)s::text)
  and (%(queue)s::text is null or queue = %(queue)s::text)
  and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and (%(correlation)s::text is null or correlation_id = %(correlation)s::text)
  and (%(subject)s::text is null or subject = %(subject)s::text)
  and (%(after)s::uuid is null or id < %(after)s::uuid)
order by id desc
limit %(limit)s
