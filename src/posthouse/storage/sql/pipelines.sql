-- Jobs of one correlation as a graph.

-- name: correlation_stages
-- Progress of the jobs of a correlation, by kind.
select j.kind, count(*) as jobs,
       count(*) filter (where j.status = 'succeeded') as succeeded,
       count(*) filter (where j.status in ('failed', 'dead_letter', 'canceled')) as unsuccessful,
       sum(case when j.status = 'succeeded' then 1 else coalesce(j.progress_percent, 0) / 100 end)::float8 as done
from posthouse.jobs as j
where j.correlation_id = %(correlation_id)s
group by j.kind
order by min(j.queued_at), j.kind

-- name: pipeline_stages
-- Progress of the first jobs of a correlation, by kind.
select j.kind, count(*) as jobs,
       count(*) filter (where j.status = 'succeeded') as succeeded,
       count(*) filter (where j.status in ('failed', 'dead_letter', 'canceled')) as unsuccessful,
       sum(case when j.status = 'succeeded' then 1 else coalesce(j.progress_percent, 0) / 100 end)::float8 as done
from (select kind, status, progress_percent, queued_at from posthouse.jobs
      where correlation_id = %(correlation)s and tenant_id = %(tenant)s order by id limit %(most)s) as j
group by j.kind
order by min(j.queued_at), j.kind

-- name: pipeline_of_correlation
-- The first jobs of a correlation, with the columns of a graph.
select id, kind, queue, status, place, subject, progress_percent, current_step, queued_at as created_at, started_at,
       finished_at, attempt_count, max_attempts, last_error, parent_id, coalesce(depends_on, '{}') as depends_on
from posthouse.jobs
where correlation_id = %(correlation)s and tenant_id = %(tenant)s
order by id
limit %(most)s

-- name: pipeline_of_ids
-- Jobs by their ids, with the columns of a graph.
select id, kind, queue, status, place, subject, progress_percent, current_step, queued_at as created_at, started_at,
       finished_at, attempt_count, max_attempts, last_error, parent_id, coalesce(depends_on, '{}') as depends_on
from posthouse.jobs
where id = any (%(ids)s::uuid[]) and tenant_id = %(tenant)s
order by id

-- name: pipeline_dependents
-- Jobs that depend on a job.
select job_id as id from posthouse.blocks where depends_on = %(id)s and not line order by job_id limit %(most)s
