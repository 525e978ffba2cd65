-- The one thing that people and tools query: all places, as jobs with a status.

create view posthouse.jobs with (security_invoker = true) as
select
  id, tenant_id, kind, queue, 'queued' as status,
  'ready' as place, priority,
  coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id)) as payload,
  dedupe_key, order_key, correlation_id, subject, source, source_ref, parent_id, depends_on,
  limit_key, requires, prefers,
  scheduled_for, queued_at, started_at, null::timestamptz as attempt_started_at,
  null::timestamptz as finished_at, attempt_count, max_attempts, generation, crashes, snoozes,
  timeout_seconds, null::timestamptz as lease_expires_at, null::uuid as worker_id,
  null::timestamptz as cancel_requested_at, progress_percent, current_step, progress_message,
  null::jsonb as result, last_error, null::jsonb as error, created_by, 0 as blockers,
  null::timestamptz as erased_at
from posthouse.ready
union all
select
  id, tenant_id, kind, queue, 'queued',
  'waiting', priority,
  coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id)),
  dedupe_key, order_key, correlation_id, subject, source, source_ref, parent_id, depends_on,
  limit_key, requires, prefers,
  scheduled_for, queued_at, started_at, null, null, attempt_count, max_attempts, generation, crashes,
  snoozes, timeout_seconds, null, null, null, progress_percent, current_step, progress_message,
  null, last_error, null, created_by, blockers, null
from posthouse.waiting
union all
select
  id, tenant_id, kind, queue, 'running',
  'running', priority,
  coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id)),
  dedupe_key, order_key, correlation_id, subject, source, source_ref, parent_id, depends_on,
  limit_key, requires, prefers,
  scheduled_for, queued_at, started_at, attempt_started_at, null, attempt_count, max_attempts,
  generation, crashes, snoozes, timeout_seconds, lease_expires_at, worker_id, cancel_requested_at,
  progress_percent, current_step, progress_message, null, last_error, null, created_by, 0, null
from posthouse.running
union all
select
  id, tenant_id, kind, queue, status,
  'history', priority,
  coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id)),
  dedupe_key, order_key, correlation_id, subject, source, source_ref, parent_id, depends_on,
  limit_key, requires, prefers,
  scheduled_for, queued_at, started_at, attempt_started_at, finished_at, attempt_count, max_attempts,
  generation, crashes, snoozes, timeout_seconds, null, worker_id, cancel_requested_at,
  progress_percent, current_step, progress_message, result, last_error, error, created_by, 0, erased_at
from posthouse.history;

create view posthouse.attempts with (security_invoker = true) as
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
