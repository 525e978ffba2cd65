-- The finished steps of a job, first to last.
select name, generation, attempt, seconds, finished_at, result
from posthouse.steps
where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
order by ordinal
