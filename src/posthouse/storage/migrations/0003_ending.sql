-- What follows from the end of a job: its dedupe key, the jobs that wait for it, whoever waits for its
-- result. Also the end of a job that never ran.

-- Wakes the workers that wait for work in these queues. NOTIFY takes a lock on the whole database at
-- commit, so it is only sent when a hungry worker holds the shared lock of that queue.
create function posthouse.wake(p_queues text[]) returns void
language plpgsql as $$
declare
  v_queue text;
begin
  foreach v_queue in array p_queues loop
    if pg_try_advisory_lock(7702, hashtext(v_queue)) then
      perform pg_advisory_unlock(7702, hashtext(v_queue));
    else
      perform pg_notify('posthouse_ready', v_queue);
    end if;
  end loop;
end $$;

-- Tells those who wait for results, if there are any, which jobs ended.
create function posthouse.announce_end(p_ids uuid[]) returns void
language plpgsql as $$
declare
  v_from integer;
begin
  if pg_try_advisory_lock(7703, 0) then
    perform pg_advisory_unlock(7703, 0);
    return;
  end if;
  for v_from in 1 .. cardinality(p_ids) by 200 loop  -- a notification holds 8,000 bytes
    perform pg_notify('posthouse_ended', array_to_string(p_ids[v_from : v_from + 199], ','));
  end loop;
end $$;

-- Moves jobs that are due and unblocked from waiting to ready, oldest first; returns how many.
create function posthouse.promote(p_limit integer default 1000) returns integer
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_queues text[];
  v_kinds text[];
  v_tenants text[];
  v_priorities integer[];
  v_turns integer[];
begin
  with due as (
    delete from posthouse.waiting
    where ctid = any (array(
      select ctid from posthouse.waiting
      where blockers = 0 and due_at <= v_now
      order by due_at limit p_limit for update skip locked))
    returning *
  ), put as (
    insert into posthouse.ready (
      id, parent_id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts,
      generation, crashes, snoozes, timeout_seconds, progress_percent, tenant_id, kind, queue, source,
      payload, dedupe_key, order_key, correlation_id, subject, source_ref, created_by, retry, depends_on,
      current_step, progress_message, last_error, lane)
    select
      id, parent_id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts,
      generation, crashes, snoozes, timeout_seconds, progress_percent, tenant_id, kind, queue, source,
      payload, dedupe_key, order_key, correlation_id, subject, source_ref, created_by, retry, depends_on,
      current_step, progress_message, last_error,
      posthouse.lane_number(queue, kind, tenant_id, priority, turn)
    from due order by due_at
  )
  select array_agg(queue), array_agg(kind), array_agg(tenant_id), array_agg(priority), array_agg(turn)
  into v_queues, v_kinds, v_tenants, v_priorities, v_turns
  from due;
  if v_queues is null then
    return 0;
  end if;
  perform posthouse.open_lanes(v_queues, v_kinds, v_tenants, v_priorities, v_turns);
  perform posthouse.wake(array(select distinct unnest(v_queues)));
  return cardinality(v_queues);
end $$;

-- Seconds until the next waiting job is due; null if none is.
create function posthouse.next_due() returns double precision
language sql stable as $$
  select extract(epoch from min(due_at) - posthouse.now())::double precision
  from posthouse.waiting where blockers = 0
$$;

-- The end of queued jobs: out of ready or waiting, into history. Returns those that were there.
create function posthouse.end_queued(p_ids uuid[], p_status text, p_error jsonb) returns setof uuid
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_ended uuid[];
begin
  with gone as (
    delete from posthouse.ready where id = any (p_ids)
    returning
      id, parent_id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts,
      generation, crashes, snoozes, timeout_seconds, progress_percent, tenant_id, kind, queue, source,
      payload, dedupe_key, order_key, correlation_id, subject, source_ref, created_by, retry, depends_on,
      current_step, progress_message, last_error
  ), held as (
    delete from posthouse.waiting where id = any (p_ids)
    returning
      id, parent_id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts,
      generation, crashes, snoozes, timeout_seconds, progress_percent, tenant_id, kind, queue, source,
      payload, dedupe_key, order_key, correlation_id, subject, source_ref, created_by, retry, depends_on,
      current_step, progress_message, last_error
  ), ended as (
    insert into posthouse.history (
      id, parent_id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts,
      generation, crashes, snoozes, timeout_seconds, progress_percent, tenant_id, kind, queue, source,
      payload, dedupe_key, order_key, correlation_id, subject, source_ref, created_by, retry, depends_on,
      current_step, progress_message, last_error, finished_at, status, outcome, error)
    select g.*, v_now, p_status, 'never_started', p_error
    from (select * from gone union all select * from held) as g
    returning id
  )
  select array_agg(id) into v_ended from ended;
  if v_ended is null then
    return;
  end if;
  delete from posthouse.blocks where job_id = any (v_ended);
  perform posthouse.after_end(v_ended, array_fill(p_status, array[cardinality(v_ended)]));
  return query select unnest(v_ended);
end $$;

-- Gives back the dedupe keys of ended jobs. A key with a window, or with a result to reuse, stays.
create function posthouse.free_keys(p_ids uuid[], p_statuses text[]) returns void
language plpgsql as $$
begin
  delete from posthouse.dedupes as d
  using unnest(p_ids, p_statuses) as e (id, status)
  where d.job_id = e.id
    and (d.tenant_id, d.dedupe_key) in (
      select h.tenant_id, h.dedupe_key from posthouse.history as h
      where h.id = any (p_ids) and h.dedupe_key is not null)
    and not (d.reuse and e.status = 'succeeded')
    and (d.until is null or d.until <= posthouse.now() or d.reuse);
  update posthouse.dedupes as d set held = false
  where d.job_id = any (p_ids)
    and (d.tenant_id, d.dedupe_key) in (
      select h.tenant_id, h.dedupe_key from posthouse.history as h
      where h.id = any (p_ids) and h.dedupe_key is not null);
end $$;

-- Settles the edges of ended jobs: unblocks, cancels or leaves those who wait for them.
create function posthouse.unblock(p_ids uuid[], p_statuses text[]) returns void
language plpgsql as $$
declare
  v_freed uuid[];
  v_doomed uuid[];
begin
  -- Dependants are locked in one order, whoever ends what: two finishers cannot deadlock here.
  perform from posthouse.waiting
  where id in (select job_id from posthouse.blocks where depends_on = any (p_ids))
  order by id for update;
  with edge as (
    select b.depends_on, b.job_id,
           e.status = 'succeeded' or coalesce(b.on_failure, w.on_dependency_failure) = 'run' as frees,
           coalesce(b.on_failure, w.on_dependency_failure) = 'cancel' as dooms
    from unnest(p_ids, p_statuses) as e (id, status)
    join posthouse.blocks as b on b.depends_on = e.id
    join posthouse.waiting as w on w.id = b.job_id
  ), gone as (
    delete from posthouse.blocks as b using edge
    where b.depends_on = edge.depends_on and b.job_id = edge.job_id and (edge.frees or edge.dooms)
    returning edge.*
  ), less as (
    update posthouse.waiting as w set blockers = w.blockers - g.n
    from (select job_id, count(*)::integer as n from gone where frees group by job_id) as g
    where w.id = g.job_id
    returning w.id, w.blockers
  )
  select (select array_agg(id) from less where blockers = 0),
         (select array_agg(distinct job_id) from gone where not frees)
  into v_freed, v_doomed;
  if v_doomed is not null then
    perform posthouse.end_queued(v_doomed, 'canceled', jsonb_build_object(
      'type', 'DependencyFailed',
      'message', 'a job that this one depends on did not succeed'));
  end if;
  if v_freed is not null then
    perform posthouse.promote();
  end if;
end $$;

-- Called once for each batch of ended jobs, in the transaction that ended them.
create function posthouse.after_end(p_ids uuid[], p_statuses text[], p_keyed boolean default true)
returns void
language plpgsql as $$
begin
  if p_keyed then
    perform posthouse.free_keys(p_ids, p_statuses);
  end if;
  if exists (select from posthouse.blocks where depends_on = any (p_ids)) then
    perform posthouse.unblock(p_ids, p_statuses);
  end if;
  perform posthouse.announce_end(p_ids);
end $$;

-- Looks again at edges whose dependency ended while they were being committed: neither side saw the other.
-- p_since is what the previous look returned, so only edges that could have raced are read.
create function posthouse.sweep_blocks(p_since xid8 default '0') returns xid8
language plpgsql as $$
declare
  v_horizon xid8 := pg_snapshot_xmin(pg_current_snapshot());
  v_ids uuid[];
  v_statuses text[];
begin
  select array_agg(e.id), array_agg(e.status) into v_ids, v_statuses
  from (
    select distinct on (h.id) h.id, h.status
    from posthouse.blocks as b
    join posthouse.history as h on h.id = b.depends_on
    where b.xid >= p_since
    order by h.id, h.finished_at desc) as e;
  if v_ids is not null then
    perform posthouse.unblock(v_ids, v_statuses);
  end if;
  return v_horizon;
end $$;
