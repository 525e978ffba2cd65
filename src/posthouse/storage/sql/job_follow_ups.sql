-- Follow-ups of a job among the newest jobs of its correlation, first to last.
select id, kind, status, queued_at as created_at, started_at, finished_at
from (
  select id, kind, status, queued_at, started_at, finished_at, parent_id from posthouse.jobs
  where correlation_id = %(correlation)s and tenant_id = %(tenant)s
  order by id desc limit %(looked_at)s) as j
where parent_id = %(id)s
order by id
limit %(most)s
