-- Public. All jobs, one row each, from the tables ready, waiting, running and history, with a status.
create or replace view posthouse.jobs with (security_invoker = true) as
select
  @view
    status := 'queued'
    place := 'ready'
    payload := coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id))
    attempt_started_at := null::timestamptz
    finished_at := null::timestamptz
    lease_expires_at := null::timestamptz
    worker_id := null::uuid
    cancel_requested_at := null::timestamptz
    result := null::jsonb
    error := null::jsonb
    blockers := 0
    erased_at := null::timestamptz
  @
from posthouse.ready
union all
select
  @view
    status := 'queued'
    place := 'waiting'
    payload := coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id))
    attempt_started_at := null
    finished_at := null
    lease_expires_at := null
    worker_id := null
    cancel_requested_at := null
    result := null
    error := null
    erased_at := null
  @
from posthouse.waiting
union all
select
  @view
    status := 'running'
    place := 'running'
    payload := coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id))
    finished_at := null
    result := null
    error := null
    blockers := 0
    erased_at := null
  @
from posthouse.running
union all
select
  @view
    place := 'history'
    payload := coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id))
    lease_expires_at := null
    blockers := 0
  @
from posthouse.history;

-- Public. All attempts, one row each: those that did not end their job, the last ones of ended jobs, and running ones.
create or replace view posthouse.attempts with (security_invoker = true) as
select
  job_id, tenant_id, kind, generation, attempt, worker_id, started_at, finished_at, outcome,
  coalesce(output ->> 'exit_code', error ->> 'exit_code')::integer as exit_code,
  coalesce(output ->> 'signal', error ->> 'signal') as signal,
  coalesce(output ->> 'pid', error ->> 'pid')::integer as pid,
  error ->> 'type' as error_type, error ->> 'message' as error_message, error ->> 'traceback' as traceback,
  output ->> 'stdout' as stdout_tail, output ->> 'stderr' as stderr_tail
from posthouse.past_attempts
union all
select
  id, tenant_id, kind, generation, attempt_count, worker_id, attempt_started_at, finished_at, outcome,
  coalesce(output ->> 'exit_code', error ->> 'exit_code')::integer,
  coalesce(output ->> 'signal', error ->> 'signal'),
  coalesce(output ->> 'pid', error ->> 'pid')::integer,
  error ->> 'type', error ->> 'message', error ->> 'traceback',
  output ->> 'stdout', output ->> 'stderr'
from posthouse.history where attempt_started_at is not null
union all
select
  id, tenant_id, kind, generation, attempt_count, worker_id, attempt_started_at, null, 'running',
  null, null, null, null, null, null, null, null
from posthouse.running;

-- Public. Failures by tenant, kind and fingerprint, with counts and the times of the first and the last one.
create or replace view posthouse.failures with (security_invoker = true) as
select
  tenant_id, kind, fingerprint, max(type) as type, (array_agg(message order by last_seen desc))[1] as message,
  (array_agg(job_id order by last_seen desc))[1] as job_id, sum(failures)::bigint as failures,
  sum(dead_letter)::bigint as dead_letter, sum(failed)::bigint as failed, sum(canceled)::bigint as canceled,
  min(first_seen) as first_seen, max(last_seen) as last_seen
from (
  select tenant_id, kind, fingerprint, type, message, job_id, failures, dead_letter, failed, canceled, first_seen,
         last_seen
  from posthouse.failure_groups
  union all
  select tenant_id, kind, fingerprint, coalesce(type, ''), coalesce(message, ''), job_id, failures, dead_letter, failed,
         canceled, at, at
  from posthouse.failure_deltas
) as parts
group by tenant_id, kind, fingerprint;
