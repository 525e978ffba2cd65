-- The status, result and error of a job.
select j.status, j.result, j.error
from posthouse.jobs as j
where j.id = %s
order by j.finished_at desc nulls first
limit 1
