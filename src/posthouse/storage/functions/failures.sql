-- Failure groups: failed attempts, counted by tenant, kind and the fingerprint of their error.
--
--   settle ──▶ failure_deltas ──group_failures──▶ failure_groups, failure_counts
--
-- Functions that end jobs unsuccessfully append one row per failure group and batch (move_settled,
-- move_queued_to_history): they update no row, so no transaction waits. The keeper moves these rows into the groups,
-- each once. Jobs that succeed cost nothing.

create or replace function posthouse.failure_step(p_at timestamptz) returns timestamptz
language sql immutable strict parallel safe as $$
  select date_bin('5 minutes', p_at, '2000-01-01 00:00:00+00')
$$;

-- Adds a fingerprint to an error. Workers compute their own; an error made in SQL gets one from its type alone, as
-- posthouse.core.failure does for such types too. Stable, as convert_to is, or it would not be inlined.
create or replace function posthouse.with_fingerprint(p_error jsonb) returns jsonb
language sql stable parallel safe as $$
  select case
    when p_error is null or p_error ? 'fingerprint' then p_error
    else p_error || jsonb_build_object('fingerprint',
      left(encode(sha256(convert_to(coalesce(p_error ->> 'type', ''), 'UTF8')), 'hex'), 16)) end
$$;

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

-- Moves up to p_limit deltas into their groups; returns how many. One statement, so that each is counted once. One
-- caller at a time: two could deadlock on each other's groups.
create or replace function posthouse.group_failures(p_limit integer default 5000) returns integer
language plpgsql as $$
declare
  v_moved integer;
begin
  if not pg_try_advisory_xact_lock(7708, 2) then
    return 0;
  end if;
  with moved as (
    delete from posthouse.failure_deltas
    where ctid = any (array(select ctid from posthouse.failure_deltas limit p_limit for update skip locked))
    returning *
  ), stepped as (
    insert into posthouse.failure_counts as c (tenant_id, kind, fingerprint, at, failures)
    select tenant_id, kind, fingerprint, posthouse.failure_step(at), sum(failures) from moved group by 1, 2, 3, 4
    on conflict (tenant_id, kind, fingerprint, at) do update set failures = c.failures + excluded.failures
  ), grouped as (
    insert into posthouse.failure_groups as g (
      tenant_id, kind, fingerprint, type, message, job_id, failures, dead_letter, failed, canceled, first_seen,
      last_seen)
    select
      tenant_id, kind, fingerprint, coalesce(min(type), ''),
      coalesce((array_agg(message order by at desc))[1], ''), (array_agg(job_id order by at desc))[1],
      sum(failures), sum(dead_letter), sum(failed), sum(canceled), min(at), max(at)
    from moved group by 1, 2, 3
    on conflict (tenant_id, kind, fingerprint) do update set
      message = case when excluded.last_seen >= g.last_seen then excluded.message else g.message end,
      job_id = case when excluded.last_seen >= g.last_seen then excluded.job_id else g.job_id end,
      failures = g.failures + excluded.failures,
      dead_letter = g.dead_letter + excluded.dead_letter,
      failed = g.failed + excluded.failed,
      canceled = g.canceled + excluded.canceled,
      first_seen = least(g.first_seen, excluded.first_seen),
      last_seen = greatest(g.last_seen, excluded.last_seen)
  )
  select count(*) into v_moved from moved;
  return v_moved;
end $$;

-- Deletes groups that were last seen before p_before, and counts of earlier times; returns how many groups.
create or replace function posthouse.delete_old_failures(p_before timestamptz) returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  delete from posthouse.failure_counts where at < p_before;
  delete from posthouse.failure_groups where last_seen < p_before;
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

create or replace function posthouse.start_bulk_change(
  p_id uuid, p_criteria jsonb, p_rate double precision, p_stop_share double precision, p_stop_after integer,
  p_actor text default 'system', p_action text default 'retry', p_filter jsonb default null,
  p_in_seconds double precision default 0
) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_now timestamptz := posthouse.now();
  v_criteria jsonb := jsonb_strip_nulls(
    p_criteria || jsonb_build_object('tenant', posthouse.effective_tenant(p_criteria ->> 'tenant')));
begin
  insert into posthouse.bulk_changes (
    id, action, criteria, filter, rate, stop_share, stop_after, created_at, created_by, starts_at, last_step_at)
  select p_id, p_action, v_criteria, posthouse.as_of(p_filter, p_action, v_now, v_criteria ->> 'tenant'), p_rate,
         p_stop_share, p_stop_after, v_now, p_actor, s.at, s.at
  from (select v_now + make_interval(secs => p_in_seconds)) as s (at);
  perform posthouse.write_audit(p_actor, case p_action when 'retry' then 'failures.retry' else 'jobs.cancel' end,
    v_criteria ->> 'tenant', p_id::text, null, v_criteria || case p_action
      when 'retry' then jsonb_build_object('rate', p_rate, 'stop_share', p_stop_share, 'stop_after', p_stop_after)
      else jsonb_build_object('rate', p_rate) end);
  return p_id;
end $$;

-- A filter, restricted to the jobs that exist when the bulk change is requested: jobs that arrive before it starts are
-- left out. If p_tenant is given, it replaces the tenants of the filter.
create or replace function posthouse.as_of(p_filter jsonb, p_action text, p_at timestamptz, p_tenant text) returns jsonb
language sql stable as $$
  select p_filter
    || case when p_tenant is null then '{}' else jsonb_build_object('tenants', jsonb_build_array(p_tenant)) end
    || jsonb_build_object('conditions', (p_filter -> 'conditions') || (
      select jsonb_agg(jsonb_build_object('field', f, 'negated', false, 'ranges', jsonb_build_array(
        jsonb_build_object('below', p_at + interval '1 microsecond'))))
      from unnest(case p_action when 'retry' then '{created,finished}'::text[] else '{created}' end) as f))
$$;

-- The ended jobs that a bulk retry selects, oldest first. Canceled jobs are selected only by fingerprint: they have one
-- if they were canceled because a dependency failed.
create or replace function posthouse.select_retriable_jobs(p_criteria jsonb, p_until timestamptz) returns table (id uuid, finished_at timestamptz)
language plpgsql stable
set plan_cache_mode = force_custom_plan  -- so that conditions on absent criteria are left out of the plan
as $$
declare
  v_fingerprint text := p_criteria ->> 'fingerprint';
  v_kind text := p_criteria ->> 'kind';
  v_queue text := p_criteria ->> 'queue';
  v_tenant text := p_criteria ->> 'tenant';
  v_since timestamptz := coalesce((p_criteria ->> 'since')::timestamptz, '-infinity');
  v_until timestamptz := least((p_criteria ->> 'until')::timestamptz, p_until);
  v_limit integer := (p_criteria ->> 'limit')::integer;
begin
  return query
    select h.id, h.finished_at from posthouse.history as h
    where h.status <> 'succeeded' and (v_fingerprint is not null or h.status <> 'canceled')
      and (v_fingerprint is null or h.error ->> 'fingerprint' = v_fingerprint)
      and (v_kind is null or h.kind = v_kind)
      and (v_queue is null or h.queue = v_queue)
      and (v_tenant is null or h.tenant_id = v_tenant)
      and h.finished_at >= v_since and h.finished_at <= v_until
    order by h.finished_at, h.id limit v_limit;
end $$;

create or replace function posthouse.gather_bulk_change(p_bulk posthouse.bulk_changes) returns integer
language plpgsql as $$
declare
  v_total integer;
begin
  if p_bulk.filter is not null then
    return posthouse.gather_filtered_jobs(p_bulk);
  end if;
  insert into posthouse.bulk_change_jobs (bulk_id, position, job_id)
  select p_bulk.id, row_number() over (order by c.finished_at, c.id), c.id
  from posthouse.select_retriable_jobs(p_bulk.criteria, p_bulk.created_at) as c;
  get diagnostics v_total = row_count;
  update posthouse.bulk_changes set state = 'running', total = v_total, last_step_at = posthouse.now() where id = p_bulk.id;
  return v_total;
end $$;

-- Adds the next jobs that a filter finds, in the order of lists: searches the ids for one second at a time.
create or replace function posthouse.gather_filtered_jobs(p_bulk posthouse.bulk_changes) returns integer
language plpgsql as $$
declare
  v_before integer := coalesce(p_bulk.total, 0);
  v_left integer := least(5000, (p_bulk.criteria ->> 'limit')::integer - v_before);
  v_found record;
begin
  select s.ids, s.looked_to into v_found
  from posthouse.search_jobs(p_bulk.filter, p_bulk.gather_cursor, v_left, 500000, 1) as s;
  insert into posthouse.bulk_change_jobs (bulk_id, position, job_id)
  select p_bulk.id, v_before + f.nth, f.id from unnest(v_found.ids) with ordinality as f (id, nth);
  update posthouse.bulk_changes as b set
    total = v_before + cardinality(v_found.ids), gather_cursor = v_found.looked_to, last_step_at = posthouse.now(),
    state = case when v_found.looked_to is null or cardinality(v_found.ids) = (b.criteria ->> 'limit')::integer - v_before
      then 'running' else 'gathering' end
  where b.id = p_bulk.id;
  return cardinality(v_found.ids);
end $$;

-- Updates the results of retried jobs: a thousand of those that have not ended, then the next thousand. Returns how
-- many results changed.
create or replace function posthouse.count_bulk_results(p_bulk posthouse.bulk_changes) returns integer
language plpgsql as $$
declare
  v_checked integer;
begin
  with open as (
    select j.position, j.job_id, j.generation, j.state from posthouse.bulk_change_jobs as j
    where j.bulk_id = p_bulk.id and j.state in ('retried', 'failing') and j.position > p_bulk.checked_position
    order by j.position limit 1000
  ), verdict as (
    select o.position, o.state as before, case
      when h.status = 'dead_letter' then 'failed'
      when h.status is not null then h.status
      when o.state = 'retried' and exists (
        select from posthouse.past_attempts as a
        where a.job_id = o.job_id and a.generation = o.generation and a.finished_at >= p_bulk.created_at
          and a.outcome in ('failed', 'timeout', 'crashed', 'lost')) then 'failing'
      else o.state end as now
    from open as o
    left join lateral (  -- reads the index on ids, even with misleading statistics
      select h.status from posthouse.history as h
      where h.id = o.job_id and h.finished_at >= p_bulk.created_at limit 1) as h on true
  ), changed as (
    update posthouse.bulk_change_jobs as j set state = v.now
    from verdict as v where j.bulk_id = p_bulk.id and j.position = v.position and v.now <> v.before
    returning v.before, v.now
  ), counted as (
    update posthouse.bulk_changes as b set
      succeeded = b.succeeded + (select count(*) from changed where now = 'succeeded'),
      failed = b.failed + (select count(*) from changed where now in ('failing', 'failed') and before = 'retried')
        - (select count(*) from changed where now in ('succeeded', 'canceled') and before = 'failing'),
      checked_position = case when (select count(*) from open) = 1000 then (select max(position) from open) else 0 end
    where b.id = p_bulk.id
  )
  select count(*) into v_checked from changed;
  return v_checked;
end $$;

-- Reopens the job at a position; returns the result. The job is skipped if another job holds its dedupe key or another
-- transaction has it locked.
create or replace function posthouse.retry_next(p_bulk posthouse.bulk_changes, p_position integer) returns text
language plpgsql as $$
declare
  v_job uuid;
  v_answer text;
  v_state text := 'skipped';
begin
  select j.job_id into v_job from posthouse.bulk_change_jobs as j
  where j.bulk_id = p_bulk.id and j.position = p_position;
  begin
    v_answer := coalesce(
      posthouse.reopen(v_job, null, format('%s (bulk retry %s)', p_bulk.created_by, p_bulk.id)), 'no longer stored');
    v_state := case when v_answer = 'queued' then 'retried' else 'skipped' end;
  exception
    when sqlstate 'PH001' then v_answer := 'its dedupe key is taken';
    when lock_not_available or deadlock_detected then v_answer := 'it was locked by another transaction';
  end;
  update posthouse.bulk_change_jobs as j set
    state = v_state, reason = case when v_state = 'skipped' then v_answer end,
    generation = case when v_state = 'retried' then (
      select g.generation from (select w.generation from posthouse.waiting as w where w.id = v_job
                                union all select r.generation from posthouse.ready as r where r.id = v_job) as g) end
  where j.bulk_id = p_bulk.id and j.position = p_position;
  return v_state;
end $$;

-- How many of the next jobs one transaction may reopen: a job with a dedupe or order key is reopened alone, or this
-- transaction could deadlock with two that enqueue with these keys.
create or replace function posthouse.reopen_batch(p_bulk posthouse.bulk_changes, p_limit integer) returns integer
language sql stable as $$
  select greatest(least(p_limit, 1), coalesce(min(n.ordinal) - 1, p_limit))::integer
  from (
    select row_number() over (order by j.position) as ordinal, h.dedupe_key, h.order_key
    from posthouse.bulk_change_jobs as j
    left join lateral (
      select h.dedupe_key, h.order_key from posthouse.history as h where h.id = j.job_id limit 1) as h on true
    where j.bulk_id = p_bulk.id and j.position >= p_bulk.next_position
      and j.position < p_bulk.next_position + p_limit
  ) as n
  where n.dedupe_key is not null or n.order_key is not null
$$;

create or replace function posthouse.end_bulk_change(p_id uuid, p_state text, p_reason text, p_actor text) returns void
language plpgsql as $$
declare
  v_bulk posthouse.bulk_changes;
begin
  update posthouse.bulk_changes set state = p_state, reason = p_reason, ended_at = posthouse.now()
  where id = p_id returning * into v_bulk;
  perform posthouse.write_audit(p_actor,
    case v_bulk.action when 'retry' then 'failures.retry.' else 'jobs.cancel.' end || p_state,
    v_bulk.criteria ->> 'tenant', p_id::text, null,
    jsonb_build_object('reason', p_reason, 'total', v_bulk.total, 'skipped', v_bulk.skipped) || case v_bulk.action
      when 'retry' then
        jsonb_build_object('retried', v_bulk.retried, 'succeeded', v_bulk.succeeded, 'failed', v_bulk.failed)
      else jsonb_build_object('canceled', v_bulk.canceled) end);
end $$;

-- Cancels the jobs at the next positions, all together: their locks are taken in order. Cancels none if another
-- transaction has one of them locked; the next step tries again.
create or replace function posthouse.cancel_next(
  p_bulk posthouse.bulk_changes, p_take integer, out canceled integer, out skipped integer)
language plpgsql as $$
declare
  v_ids uuid[] := array(
    select j.job_id from posthouse.bulk_change_jobs as j
    where j.bulk_id = p_bulk.id and j.position >= p_bulk.next_position and j.position < p_bulk.next_position + p_take);
begin
  with answers as (
    select a.id, a.answer, a.answer in ('canceled', 'canceling') as done
    from posthouse.cancel_jobs(v_ids, format('%s (bulk cancel %s)', p_bulk.created_by, p_bulk.id)) as a
  ), notified as (
    update posthouse.bulk_change_jobs as j set
      state = case when a.done then 'canceled' else 'skipped' end, reason = case when not a.done then a.answer end
    from answers as a
    where j.bulk_id = p_bulk.id and j.position >= p_bulk.next_position and j.position < p_bulk.next_position + p_take
      and j.job_id = a.id
  )
  select count(*) filter (where a.done), count(*) filter (where not a.done) into canceled, skipped from answers as a;
exception
  when lock_not_available or deadlock_detected then
    canceled := 0;
    skipped := 0;
end $$;

-- Advances the bulk change that was advanced longest ago by one step: gathers its jobs, or updates the results of its
-- jobs and changes up to p_limit of the next ones, as its rate allows. A pause of more than a second allows no more than
-- one second's worth of jobs at once. The results of a bulk change are still updated for a day after it has ended.
-- Returns what was done; nothing if there is no bulk change, or another keeper has it locked.
create or replace function posthouse.advance_bulk_change(p_limit integer default 50)
returns table (id uuid, retried integer, canceled integer, skipped integer, checked integer)
language plpgsql
set lock_timeout = '2s'
as $$
declare
  v_now timestamptz := posthouse.now();
  v_bulk posthouse.bulk_changes;
  v_credit double precision;
  v_take integer;
  v_state text;
begin
  select b.* into v_bulk from posthouse.bulk_changes as b
  where (b.state in ('gathering', 'running') and b.starts_at <= v_now)
    or (b.ended_at > v_now - interval '1 day' and exists (
      select from posthouse.bulk_change_jobs as j where j.bulk_id = b.id and j.state in ('retried', 'failing')))
  order by b.last_step_at limit 1 for update skip locked;
  if not found then
    return;
  end if;
  id := v_bulk.id;
  retried := 0;
  canceled := 0;
  skipped := 0;
  if v_bulk.state = 'gathering' then
    begin
      checked := posthouse.gather_bulk_change(v_bulk);
    exception when others then  -- otherwise it would block all other bulk changes
      checked := 0;
      perform posthouse.end_bulk_change(v_bulk.id, 'halted', format('the search for its jobs failed: %s', sqlerrm), 'keeper');
    end;
    return next;
    return;
  end if;
  checked := posthouse.count_bulk_results(v_bulk);
  select b.* into v_bulk from posthouse.bulk_changes as b where b.id = v_bulk.id;
  v_credit := least(v_bulk.credit + v_bulk.rate * date_part('epoch', v_now - v_bulk.last_step_at),
                    greatest(v_bulk.rate, 1));
  if v_bulk.state <> 'running' then
    v_take := 0;
  elsif v_bulk.succeeded + v_bulk.failed >= v_bulk.stop_after
      and v_bulk.failed > v_bulk.stop_share * (v_bulk.succeeded + v_bulk.failed) then
    v_take := 0;
    perform posthouse.end_bulk_change(v_bulk.id, 'halted',
      format('%s of %s failed again', v_bulk.failed, v_bulk.succeeded + v_bulk.failed), 'keeper');
  else
    v_take := least(floor(v_credit), p_limit, v_bulk.total - v_bulk.next_position + 1);
  end if;
  if v_bulk.action = 'cancel' then
    select c.canceled, c.skipped into canceled, skipped from posthouse.cancel_next(v_bulk, v_take) as c;
    v_take := canceled + skipped;
  else
    v_take := posthouse.reopen_batch(v_bulk, v_take);
    for v_position in v_bulk.next_position .. v_bulk.next_position + v_take - 1 loop
      v_state := posthouse.retry_next(v_bulk, v_position);
      retried := retried + (v_state = 'retried')::integer;
      skipped := skipped + (v_state = 'skipped')::integer;
    end loop;
  end if;
  update posthouse.bulk_changes as b set
    retried = b.retried + advance_bulk_change.retried, canceled = b.canceled + advance_bulk_change.canceled,
    skipped = b.skipped + advance_bulk_change.skipped,
    next_position = b.next_position + v_take, credit = v_credit - v_take, last_step_at = v_now
  where b.id = v_bulk.id;
  if v_bulk.state = 'running' and v_bulk.next_position + v_take > v_bulk.total then
    perform posthouse.end_bulk_change(v_bulk.id, 'done', null, 'keeper');
  end if;
  return next;
end $$;

-- Stops a bulk change; jobs that were changed stay changed. Returns the state that it had, null if there is no such
-- change.
create or replace function posthouse.stop_bulk_change(p_id uuid, p_actor text default 'system') returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_state text;
  v_tenant text := posthouse.effective_tenant(null);
begin
  select b.state into v_state from posthouse.bulk_changes as b
  where b.id = p_id and (v_tenant is null or b.criteria ->> 'tenant' = v_tenant) for update;
  if v_state in ('gathering', 'running') then
    perform posthouse.end_bulk_change(p_id, 'stopped', format('stopped by %s', p_actor), p_actor);
  end if;
  return v_state;
end $$;

-- Deletes bulk changes that ended before p_before; returns how many.
create or replace function posthouse.delete_old_bulk_changes(p_before timestamptz) returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  delete from posthouse.bulk_changes where ended_at < p_before;
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;
