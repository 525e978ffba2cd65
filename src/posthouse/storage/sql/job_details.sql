-- The data of one job: attempts, log lines, parts, steps, artifacts, follow-ups; and the graph of its correlation.

-- name: job_attempts
-- The attempts of a job, first to last.
select
  generation, attempt, worker_id, started_at, finished_at, outcome, exit_code, signal, pid, error_type,
  error_message, traceback, stdout_tail, stderr_tail
from posthouse.attempts
where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
order by generation, started_at, attempt

-- name: job_log
-- Log lines of a job, first to last, after a given line.
select sequence, at, generation, attempt, stream, level, text
from posthouse.log_lines
where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and sequence > %(after)s
  and (%(attempt)s::integer is null or attempt = %(attempt)s::integer)
  and (%(generation)s::integer is null or generation = %(generation)s::integer)
order by sequence
limit %(limit)s

-- name: job_log_tail
-- The last log lines of a job, or the last before a given line, first to last.
select sequence, at, generation, attempt, stream, level, text
from (
  select sequence, at, generation, attempt, stream, level, text
  from posthouse.log_lines
  where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
    and (%(before)s::bigint is null or sequence < %(before)s::bigint)
    and (%(attempt)s::integer is null or attempt = %(attempt)s::integer)
    and (%(generation)s::integer is null or generation = %(generation)s::integer)
  order by sequence desc
  limit %(limit)s) as l
order by sequence

-- name: job_parts
-- The parts of a job in the order of their declaration.
select
  name, status, percent, done, total, weight, message, error, result, generation, attempt, started_at,
  finished_at, updated_at
from posthouse.parts
where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
order by ordinal

-- name: job_steps
-- The finished steps of a job, first to last.
select name, generation, attempt, seconds, finished_at, result
from posthouse.steps
where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
order by ordinal

-- name: step_result
-- The result of a finished step.
select result::text from posthouse.steps where job_id = %s and name = %s

-- name: steps_done
-- The names of a job's finished steps, first to last.
select name from posthouse.steps where job_id = %s order by ordinal

-- name: artifacts_list
-- The files of a job, by name; one of them if a name is given.
select a.name, a.size, a.content_type, encode(a.sha256, 'hex') as sha256, a.created_at, a.generation, a.attempt, a.blob_key
from posthouse.artifacts as a
where a.job_id = %(id)s and (%(tenant)s::text is null or a.tenant_id = %(tenant)s::text)
  and (%(name)s::text is null or a.name = %(name)s::text)
order by a.name

-- name: artifact_for_job
-- An artifact of a running job, or of another job of its tenant, by the job's token.
select a.name, a.size, a.content_type, encode(a.sha256, 'hex') as sha256, a.blob_key
from posthouse.running as r
left join posthouse.artifacts as a
  on a.job_id = coalesce(%(of)s::uuid, r.id) and a.name = %(name)s and a.tenant_id = r.tenant_id
where r.id = %(id)s and r.token = %(token)s

-- name: job_attempt_spans
-- The last attempts at a job, and since when each could have started, if recorded.
select a.generation, a.attempt, a.worker_id, nullif(w.name, '') as worker, a.started_at, a.finished_at, a.outcome,
       a.error ->> 'type' as error_type, a.error ->> 'message' as error_message, a.ready_at
from (
  (select generation, attempt, worker_id, started_at, finished_at, outcome, error, ready_at
   from posthouse.past_attempts where job_id = %(id)s order by started_at desc limit %(most)s)
  union all
  select generation, attempt_count, worker_id, attempt_started_at, finished_at, outcome, error, null
  from posthouse.history where id = %(id)s and attempt_started_at is not null
  union all
  select generation, attempt_count, worker_id, attempt_started_at, null, 'running', null, null
  from posthouse.running where id = %(id)s
) as a
left join posthouse.visible_workers() as w on w.id = a.worker_id
order by a.generation desc, a.started_at desc
limit %(most)s

-- name: job_part_spans
-- The latest steps and parts of a job that have started.
(select 'step' as type, name, 'succeeded' as status, generation, attempt,
        finished_at - make_interval(secs => coalesce(seconds, 0)) as started_at, finished_at, null as error
 from posthouse.steps where job_id = %(id)s order by ordinal desc limit %(most)s)
union all
(select 'part', name, status, generation, attempt, coalesce(started_at, finished_at), finished_at, error
 from posthouse.parts where job_id = %(id)s and coalesce(started_at, finished_at) is not null
 order by ordinal desc limit %(most)s)

-- name: job_follow_ups
-- Follow-ups of a job, among the newest jobs of its correlation, first to last.
select id, kind, status, queued_at as created_at, started_at, finished_at
from (
  select id, kind, status, queued_at, started_at, finished_at, parent_id from posthouse.jobs
  where correlation_id = %(correlation)s and tenant_id = %(tenant)s
  order by id desc limit %(max_scanned)s) as j
where parent_id = %(id)s
order by id
limit %(most)s

-- name: job_dependencies_finished_at
-- When the last of these jobs finished; null if one has not, or none is stored.
select case when bool_and(finished_at is not null) then max(finished_at) end
from posthouse.jobs where id = any (%(ids)s::uuid[])

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
select id, kind, queue, status, job_table, subject, progress_percent, current_step, queued_at as created_at, started_at,
       finished_at, attempt_count, max_attempts, last_error, parent_id, coalesce(depends_on, '{}') as depends_on
from posthouse.jobs
where correlation_id = %(correlation)s and tenant_id = %(tenant)s
order by id
limit %(most)s

-- name: pipeline_of_ids
-- Jobs by their ids, with the columns of a graph.
select id, kind, queue, status, job_table, subject, progress_percent, current_step, queued_at as created_at, started_at,
       finished_at, attempt_count, max_attempts, last_error, parent_id, coalesce(depends_on, '{}') as depends_on
from posthouse.jobs
where id = any (%(ids)s::uuid[]) and tenant_id = %(tenant)s
order by id

-- name: pipeline_dependents
-- Jobs that depend on a job.
select job_id as id from posthouse.job_dependencies where depends_on = %(id)s and not keeps_order order by job_id limit %(most)s
