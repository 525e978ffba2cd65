-- The statements of workers: claims, leases, outcomes, log lines and steps.

-- fragment: claimed_job
-- The columns of a claimed job. Ids and times are raw bytes and payloads text: the worker decodes only what it needs.
uuid_send(c.id), c.kind, c.queue, c.tenant_id,
  coalesce(c.payload, (select body from posthouse.payloads as p where p.job_id = c.id))::text,
  c.attempt_count, c.max_attempts, c.priority, c.lane, c.position, c.crashes, c.snoozes, c.generation,
  c.timeout_seconds, c.retry, c.correlation_id, c.subject, c.parent_id,
  timestamptz_send(c.queued_at), timestamptz_send(c.scheduled_for), timestamptz_send(c.started_at),
  timestamptz_send(c.attempt_started_at), c.last_error, c.trace

-- name: claim
-- Claims jobs.
select @claimed_job@
from posthouse.claim(
  %(worker)s, %(token)s, %(queues)s, %(kinds)s, %(limit)s, make_interval(secs => %(lease)s),
  %(lanes)s, %(lane_cursors)s, %(allow_suspect)s, %(capabilities)s, %(tenants)s, %(tenant_usage)s,
  make_interval(secs => %(preference_wait)s), %(min_jobs)s) as c

-- name: claimed
-- The jobs of the claim with this token, for a worker that did not receive the reply.
select @claimed_job@
from posthouse.claimed(%(token)s) as c where c.worker_id = %(worker)s

-- name: claim_settings
-- Claim settings: the weights of tenants, and whether there are rate limits.
select (select jsonb_object_agg(id, weight) from posthouse.tenants where weight <> 1),
       exists (select from posthouse.limits where rate is not null)

-- name: succeed
-- Reports success; returns the ids whose lease was lost.
select posthouse.succeed(%s::uuid[], %s::uuid[], %s::text[]::jsonb[], %s::text[]::jsonb[])

-- name: succeed_with
-- Reports success with follow-up jobs; returns the ids whose lease was lost.
select posthouse.succeed_with(
  %s::uuid[], %s::uuid[], %s::text[]::jsonb[], p_outputs => %s::text[]::jsonb[], p_followups => %s::text[]::jsonb[])

-- name: settle
-- Reports every other outcome; returns the ids whose lease was lost.
select posthouse.settle(
  %s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::double precision[], %s::text[]::jsonb[], %s::text[]::jsonb[])

-- name: complete
-- Completes a job in its handler's transaction; returns whether the lease was valid.
select posthouse.complete(%s, %s, %s::text::jsonb, %s::text::jsonb)

-- name: heartbeat
-- Renews leases; returns the jobs that the worker must stop, and why.
select uuid_send(id), verdict
from posthouse.heartbeat(%s, %s::uuid[], %s::uuid[], make_interval(secs => %s))

-- name: report
-- Writes progress and parts of many jobs; returns those that were not written.
select id, verdict from posthouse.report(%s, make_interval(secs => %s))

-- name: attempt_by_token
-- A running attempt, by its token and the API key of its worker.
select r.id, r.kind, r.tenant_id, r.attempt_count as attempt, r.max_attempts, r.crashes, r.snoozes, r.worker_id,
       coalesce(r.retry, d.retry) as retry,
       coalesce(d.followup_queues, '{}') as followup_queues, extract(epoch from posthouse.now() - r.started_at)::float8 as age
from posthouse.running as r
join posthouse.workers as w on w.id = r.worker_id and w.key = %(key)s
left join posthouse.definitions as d on d.key = r.kind
where r.id = %(id)s and r.token = %(token)s

-- name: lease_by_key
-- The lease of a job held by a worker of this key, for workers that store no tokens.
select r.token, r.worker_id from posthouse.running as r
join posthouse.workers as w on w.id = r.worker_id and w.key = %(key)s
where r.id = %(id)s

-- name: leases_of_others
-- The jobs among these that run under one of these tokens, but were claimed by a worker with another key.
select r.id from posthouse.running as r
join unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) as report (id, token) on r.id = report.id and r.token = report.token
join posthouse.workers as w on w.id = r.worker_id
where w.key is distinct from %(key)s

-- name: worker_key
-- The key that a worker registered with. Locks the worker's row against deletion until the transaction ends.
select key from posthouse.workers where id = %(id)s for key share

-- name: worker_latest_by_key
-- The worker that was registered last with a key, and its queues, kinds and capabilities.
select id, queues, kinds, capabilities from posthouse.workers where key = %(key)s order by started_at desc limit 1

-- name: worker_update_queues
-- Stores the queues and kinds that a worker serves from now on.
update posthouse.workers set queues = %s, kinds = %s where id = %s returning id

-- name: request_wakeup
-- Requests wakeups for these queues in this session.
select pg_advisory_lock_shared(7702, hashtext(queue)) from unnest(%s::text[]) as queue

-- name: cancel_wakeup
-- Cancels wakeups for these queues in this session.
select pg_advisory_unlock_shared(7702, hashtext(queue)) from unnest(%s::text[]) as queue

-- name: log_write
-- Stores log lines of running jobs.
select posthouse.write_log(%s::uuid[], %s::uuid[], %s::float8[], %s::text[], %s::text[], %s::text[])

-- name: step_keep
-- Stores the result of a finished step; returns the outcome.
select posthouse.save_step(
  %s, %s, make_interval(secs => %s), %s, %s::jsonb, %s::real, p_unless_canceled => %s)

-- name: artifact_attach
-- Attaches a file to a queued job; returns whether the job exists and has not started.
select posthouse.attach(%s::jsonb)
