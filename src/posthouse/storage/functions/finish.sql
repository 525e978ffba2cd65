-- Finish: every way out of running. All functions check the token, and return which reports stored.

-- Rows of running are found by `id = any (...)` and then compared with the reports by a hashed subplan (`is true` keeps
-- the planner from making a join of it). A join may be planned from the wrong side: while an old transaction pins the
-- MVCC horizon, running is large but statistics show it as empty, and a plan that read all of it took 14 s for 40,000
-- jobs.

-- Success, the common case: one statement for the whole batch. A job whose cancellation was requested while it ran ends
-- as canceled, regardless of what its handler returned. Returns the ids whose lease was lost; a report that stored in
-- an earlier call, whose reply was lost, is not among them.
create or replace function posthouse.succeed(
  p_ids uuid[], p_tokens uuid[], p_results jsonb[], p_outputs jsonb[] default null
) returns uuid[]
language plpgsql as $$
declare
  v_stored record;
begin
  select l.* into v_stored from posthouse.finish_succeeded(p_ids, p_tokens, p_results, p_outputs) as l;
  perform posthouse.release_slots(v_stored.slots);
  return v_stored.lost;
end $$;

-- Like succeed, but returns the slots that the jobs held instead of releasing them: the caller releases them last (see
-- functions/limits.sql).
create or replace function posthouse.finish_succeeded(
  p_ids uuid[], p_tokens uuid[], p_results jsonb[], p_outputs jsonb[], out lost uuid[], out slots jsonb)
language plpgsql as $$
declare
  v_moved record;
begin
  select m.* into v_moved from posthouse.move_succeeded(p_ids, p_tokens, p_results, p_outputs) as m;
  slots := v_moved.slots;
  lost := '{}';
  if v_moved.stored <> '{}' then
    perform posthouse.after_finish(v_moved.stored, v_moved.statuses, v_moved.keyed);
  end if;
  if cardinality(v_moved.stored) < cardinality(p_ids) then
    lost := posthouse.lost_leases(p_ids, p_tokens, v_moved.stored, v_moved.tokens);
  end if;
end $$;

-- Moves succeeded jobs to history, and nothing else: its settings fix the plan, and must not affect the steps that
-- follow. A job that reported progress and succeeds is complete: its percentage becomes 100, regardless of its last
-- report.
create or replace function posthouse.move_succeeded(
  p_ids uuid[], p_tokens uuid[], p_results jsonb[], p_outputs jsonb[],
  out stored uuid[], out tokens uuid[], out statuses text[], out keyed boolean, out slots jsonb)
language plpgsql
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_nestloop = off  -- results are joined by hash
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := posthouse.now();
begin
  with done as (
    delete from posthouse.running as r
    where r.id = any (p_ids)
      and ((r.id, r.token) in (select u.id, u.token from unnest(p_ids, p_tokens) as u (id, token))) is true
    returning
      @job r
        progress_percent :=
          case when r.cancel_requested_at is null and r.progress_percent is not null then 100 else r.progress_percent end
      @, @attempt r@, r.slots
  ), kept as (
    insert into posthouse.history as h (@job@, @attempt@, result, finished_at, status, outcome, output)
    select @job done@, @attempt done@, report.result, v_now,
           case when cancel_requested_at is null then 'succeeded' else 'canceled' end,
           case when cancel_requested_at is null then 'succeeded' else 'canceled' end,
           report.output
    from done left join unnest(p_ids, p_tokens, p_results, p_outputs) as report (id, token, result, output)
      on report.id = done.id and report.token = done.token
    returning h.id, h.token, h.status, h.dedupe_key
  )
  select coalesce(array_agg(kept.id), '{}'), array_agg(kept.token), array_agg(kept.status), count(kept.dedupe_key) > 0,
         (select jsonb_object_agg(h.slots, h.jobs) from (
           select done.slots, count(*) as jobs from done where done.slots is not null group by done.slots) as h)
  into stored, tokens, statuses, keyed, slots
  from kept;
end $$;

-- The reports that stored neither now nor in an earlier call with the same token. An attempt that was recorded as lost
-- was not reported by its holder. Attempts are compared, not jobs: of two attempts at one job in one call, one can be
-- stored and the other be lost.
create or replace function posthouse.lost_leases(p_ids uuid[], p_tokens uuid[], p_stored uuid[], p_stored_tokens uuid[])
returns uuid[]
language sql stable as $$
  select coalesce(array_agg(report.id), '{}')
  from unnest(p_ids, p_tokens) as report (id, token)
  where not exists (select from unnest(p_stored, p_stored_tokens) as stored (id, token)
                    where stored.id = report.id and stored.token = report.token)
    and not exists (select from posthouse.history as h
                    where h.id = report.id and h.token = report.token and h.outcome <> 'lost')
    and not exists (select from posthouse.past_attempts as a
                    where a.job_id = report.id and a.token = report.token and a.outcome <> 'lost')
$$;

-- Every outcome but success. p_events: fail, exhaust, cancel (the job ends) or retry, snooze, release, rescue (the job
-- returns to the queue after p_delays seconds); p_outcomes: the outcomes of the attempts. Snooze and release do not
-- count the attempt; rescue counts a crash unless the error is LeaseExpired (see posthouse.rescue), and the second
-- crash makes the job a suspect. A release with the error PayloadMismatch keeps the job from workers with the same code
-- (see meets). Returns the ids whose lease was lost.
create or replace function posthouse.settle(
  p_ids uuid[], p_tokens uuid[], p_events text[], p_outcomes text[], p_delays double precision[],
  p_errors jsonb[], p_outputs jsonb[] default null
) returns uuid[]
language plpgsql as $$
declare
  v_moved record;
begin
  if exists (
    select from unnest(p_events) as u (event)
    where not exists (select from posthouse.transitions as t
                      where t.event = u.event and t.from_status = 'running')) then
    raise exception 'invalid event in %: not a transition out of running', p_events using errcode = 'PH002';
  end if;
  select m.* into v_moved
  from posthouse.move_settled(p_ids, p_tokens, p_events, p_outcomes, p_delays, p_errors, p_outputs) as m;
  if v_moved.ended is not null then
    perform posthouse.after_finish(v_moved.ended, v_moved.statuses);
  end if;
  if coalesce(cardinality(v_moved.ended), 0) < cardinality(v_moved.stored) then
    perform posthouse.reset_progress(v_moved.stored);
  end if;
  if 0 >= any (p_delays) then
    perform posthouse.promote();
  end if;
  perform posthouse.release_slots(v_moved.slots);
  if cardinality(v_moved.stored) = cardinality(p_ids) then
    return '{}';
  end if;
  return posthouse.lost_leases(p_ids, p_tokens, v_moved.stored, v_moved.tokens);
end $$;

-- Moves settled jobs out of running, and nothing else, as move_succeeded does. Failures are counted in the same
-- statement (see functions/failures.sql): one row per failure group in the batch is appended, so that no transaction
-- waits for another.
create or replace function posthouse.move_settled(
  p_ids uuid[], p_tokens uuid[], p_events text[], p_outcomes text[], p_delays double precision[],
  p_errors jsonb[], p_outputs jsonb[],
  out stored uuid[], out tokens uuid[], out ended uuid[], out statuses text[], out slots jsonb)
language plpgsql
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_nestloop = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := posthouse.now();
begin
  with report as (
    select * from unnest(p_ids, p_tokens, p_events, p_outcomes, p_delays, p_errors, p_outputs)
      with ordinality as u (id, token, event, outcome, delay, error, output, ordinal)
  ), gone as materialized (
    delete from posthouse.running as r
    where r.id = any (p_ids)
      and ((r.id, r.token) in (select u.id, u.token from unnest(p_ids, p_tokens) as u (id, token))) is true
    returning r.*
  ), judged as (
    select gone.*, report.outcome, report.delay, posthouse.with_fingerprint(report.error) as error, report.output,
      report.ordinal,
      ((report.event = 'rescue' or report.outcome in ('lost', 'crashed'))
       and (report.error ->> 'type' = 'LeaseExpired') is not true)::integer as crash,
      case
        when gone.cancel_requested_at is not null then 'cancel'
        when report.event = 'retry' and gone.attempt_count >= gone.max_attempts then 'exhaust'
        else report.event end as event
    from gone join report on report.id = gone.id and report.token = gone.token
  ), ruled as materialized (
    select judged.*, t.to_status,
           coalesce(judged.error ->> 'type' || ': ', '') || (judged.error ->> 'message') as error_text
    from judged join posthouse.transitions as t on t.event = judged.event and t.from_status = 'running'
  ), ended as (
    insert into posthouse.history (
      @job@, @attempt@, finished_at, status, outcome, error, output)
    select
      @job
        crashes := crashes + crash
        last_error := coalesce(error_text, last_error)
      @, @attempt@, v_now, to_status,
      case when event = 'cancel' then 'canceled' else outcome end, error, output
    from ruled where to_status <> 'queued'
    returning id, status
  ), recorded as (
    insert into posthouse.past_attempts (
      job_id, tenant_id, kind, generation, attempt, worker_id, token, started_at, finished_at, outcome,
      subject, error, output, queue, ready_at)
    select id, tenant_id, kind, generation, attempt_count, worker_id, token, attempt_started_at, v_now,
           outcome, subject, error, output, queue,
           posthouse.ready_since(queued_at, scheduled_for, depends_on, order_key)
    from ruled where to_status = 'queued'
  ), counted as (
    insert into posthouse.failure_deltas (
      tenant_id, kind, fingerprint, at, failures, dead_letter, failed, job_id, type, message)
    select tenant_id, kind, fingerprint, v_now, failures, dead_letter, failed, p_ids[sample],
           p_errors[sample] ->> 'type', left(p_errors[sample] ->> 'message', 500)
    from (
      select tenant_id, kind, error ->> 'fingerprint' as fingerprint, count(*) as failures,
             count(*) filter (where event = 'exhaust') as dead_letter,
             count(*) filter (where event = 'fail') as failed, max(ordinal) as sample
      from ruled
      where outcome in ('failed', 'timeout', 'crashed', 'lost') and event <> 'cancel' and error is not null
      group by 1, 2, 3
    ) as failures
  ), parked as (
    insert into posthouse.waiting (@job@, rank, due_at)
    select
      @job
        scheduled_for := v_now + make_interval(secs => coalesce(delay, 0))
        attempt_count := attempt_count - (event in ('snooze', 'release'))::integer
        crashes := crashes + crash
        snoozes := snoozes + (event = 'snooze')::integer
        requires :=
          case when event = 'release' and error ->> 'type' = 'PayloadMismatch'
            then coalesce(requires, '{}') || ('!' || coalesce((
              select w.code from posthouse.workers as w where w.id = ruled.worker_id), ruled.worker_id::text))
            else requires end
        last_error := coalesce(error_text, last_error)
      @,
      case
        when crashes + crash >= 2 then 0
        when event in ('rescue', 'release') then 1
        else 2 end,
      v_now + make_interval(secs => coalesce(delay, 0))
    from ruled where to_status = 'queued'
  )
  select l.ids, l.tokens, (select array_agg(id) from ended), (select array_agg(status) from ended),
         (select jsonb_object_agg(h.slots, h.jobs) from (
           select gone.slots, count(*) as jobs from gone where gone.slots is not null group by gone.slots) as h)
  into stored, tokens, ended, statuses, slots
  from (select coalesce(array_agg(id), '{}'), array_agg(token) from ruled) as l (ids, tokens);
end $$;

-- Success with follow-up jobs: they are stored if and only if the job succeeds, and only once no matter how often the
-- success is reported. p_followups has one element for each of p_ids, a JSON array for posthouse.enqueue_many.
create or replace function posthouse.succeed_with(
  p_ids uuid[], p_tokens uuid[], p_results jsonb[], p_followups jsonb[], p_outputs jsonb[] default null
) returns uuid[]
language plpgsql as $$
declare
  v_held bigint[] := array(
    select report.nth from posthouse.running as r
    join unnest(p_ids, p_tokens) with ordinality as report (id, token, nth)
      on r.id = report.id and r.token = report.token
    where r.cancel_requested_at is null
    order by r.id for update of r);
  v_stored record;
begin
  select l.* into v_stored from posthouse.finish_succeeded(p_ids, p_tokens, p_results, p_outputs) as l;
  perform posthouse.enqueue_many(f.jobs)
  from unnest(p_followups) with ordinality as f (jobs, nth)
  where f.nth = any (v_held) and f.jobs is not null;
  perform posthouse.release_slots(v_stored.slots);
  return v_stored.lost;
end $$;

-- Success inside the handler's own transaction. Returns succeeded; otherwise the caller must roll back: lost (also if
-- an earlier call stored, as the handler's writes would be made twice) or canceled.
create or replace function posthouse.complete(p_id uuid, p_token uuid, p_result jsonb, p_followups jsonb)
returns text
language plpgsql as $$
declare
  v_canceling boolean;
begin
  select r.cancel_requested_at is not null into v_canceling
  from posthouse.running as r where r.id = p_id and r.token = p_token for update;
  if not found then
    return 'lost';
  elsif v_canceling then
    return 'canceled';
  end if;
  perform posthouse.succeed_with(array[p_id], array[p_token], array[p_result], array[p_followups]);
  return 'succeeded';
end $$;
