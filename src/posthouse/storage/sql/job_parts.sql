-- The parts of a job in the order of their declaration.
select
  name, status, percent, done, total, weight, message, error, result, generation, attempt, started_at,
  finished_at, updated_at
from posthouse.parts
where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
order by ordinal
