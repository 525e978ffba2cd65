-- Jobs by their ids, as a graph needs them.
select id, kind, queue, status, place, subject, progress_percent, current_step, queued_at as created_at, started_at,
       finished_at, attempt_count, max_attempts, last_error, parent_id, coalesce(depends_on, '{}') as depends_on
from posthouse.jobs
where id = any (%(ids)s::uuid[]) and tenant_id = %(tenant)s
order by id
