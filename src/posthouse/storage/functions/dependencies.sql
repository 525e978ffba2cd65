-- Jobs that wait, and what happens when a job ends: promotion of due jobs, dedupe keys, dependencies and ordered groups.
-- When a job ends, its dedupe key is released and dependent jobs are unblocked or canceled. Also the end of jobs that
-- never ran.

-- Moves jobs that are due and unblocked from waiting to ready, oldest first; returns how many.
create or replace function posthouse.promote(p_limit integer default 1000) returns integer
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_lanes posthouse.lane[];
  v_promoted integer;
begin
  with due as (
    delete from posthouse.waiting
    where ctid = any (array(
      select ctid from posthouse.waiting
      where blockers = 0 and due_at <= v_now
      order by due_at limit p_limit for update skip locked))
    returning *, posthouse.lane_number(queue, kind, tenant_id, priority, rank, limit_key, requires, prefers) as lane
  ), put as (
    insert into posthouse.ready (@job@, lane)
    select @job@, lane from due order by due_at
  )
  select array_agg((l.lane, queue, kind, tenant_id, priority, rank, limit_key, requires, prefers)::posthouse.lane),
         coalesce(sum(l.jobs), 0)
  into v_lanes, v_promoted
  from (select lane, queue, kind, tenant_id, priority, rank, limit_key, requires, prefers, count(*) as jobs
        from due group by 1, 2, 3, 4, 5, 6, 7, 8, 9) as l;
  if v_lanes is not null then
    perform posthouse.open_lanes(v_lanes);
    perform posthouse.wake(array(select distinct l.queue from unnest(v_lanes) as l));
  end if;
  return v_promoted;
end $$;

-- Seconds until the next unblocked job in waiting is due; null if there is none.
create or replace function posthouse.next_due() returns double precision
language sql stable as $$
  select extract(epoch from min(due_at) - posthouse.now())::double precision
  from posthouse.waiting where blockers = 0
$$;

-- Ends queued jobs: moves them from ready or waiting into history. Returns the jobs that were there. Once the function
-- has locked these rows, it waits for no other lock, so it cannot deadlock: dependents that another transaction has
-- locked are left to the keeper (recheck_dependencies).
create or replace function posthouse.finish_queued(p_ids uuid[], p_status text, p_error jsonb) returns setof uuid
language plpgsql as $$
declare
  v_statuses text[] := array_fill(p_status, array[cardinality(p_ids)]);
  v_ended uuid[];
begin
  if not posthouse.lock_queued(p_ids) then
    return;
  end if;
  v_ended := posthouse.move_queued_to_history(p_ids, p_status, p_error);
  perform posthouse.after_finish(
    v_ended, v_statuses[: cardinality(v_ended)], true, posthouse.lock_dependents(p_ids, v_statuses, false));
  return query select unnest(v_ended);
end $$;

-- Locks queued jobs, in the order of their ids. Returns false if there are none.
create or replace function posthouse.lock_queued(p_ids uuid[]) returns boolean
language sql as $$
  with r as (select id from posthouse.ready where id = any (p_ids) order by id for update),
       w as (select id from posthouse.waiting where id = any (p_ids) order by id for update)
  select (select count(*) from r) + (select count(*) from w) > 0  -- counted, so that all rows are locked
$$;

-- Locks a queued job; returns false if another transaction has it locked, and true if the job is no longer queued.
create or replace function posthouse.try_lock_queued(p_id uuid) returns boolean
language plpgsql as $$
begin
  perform from posthouse.ready where id = p_id for update skip locked;
  if found then return true; end if;
  perform from posthouse.waiting where id = p_id for update skip locked;
  return found or coalesce(posthouse.status_of(p_id), '') <> 'queued';
end $$;

-- Moves queued jobs to history, and nothing else: see finish_queued.
create or replace function posthouse.move_queued_to_history(p_ids uuid[], p_status text, p_error jsonb) returns uuid[]
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_ended uuid[];
begin
  with gone as (
    delete from posthouse.ready where id = any (p_ids)
    returning @job@
  ), held as (
    delete from posthouse.waiting where id = any (p_ids)
    returning @job@
  ), ended as (
    insert into posthouse.history (@job@, finished_at, status, outcome, error)
    select @job g@, v_now, p_status, 'never_started', posthouse.with_fingerprint(p_error)
    from (select @job@ from gone union all select @job@ from held) as g
    returning id, tenant_id, kind, error
  ), counted as (
    insert into posthouse.failure_deltas (
      tenant_id, kind, fingerprint, at, failures, dead_letter, canceled, job_id, type, message)
    select tenant_id, kind, min(error ->> 'fingerprint'), v_now, count(*),
           count(*) filter (where p_status = 'dead_letter'), count(*) filter (where p_status = 'canceled'),
           (array_agg(id))[1], p_error ->> 'type', left(p_error ->> 'message', 500)
    from ended
    where p_status = 'dead_letter' or p_error ->> 'type' = 'DependencyFailed'  -- a job canceled by a person did not fail
    group by tenant_id, kind
  )
  select coalesce(array_agg(id), '{}') into v_ended from ended;
  -- The edges of its ordered group stay: see relink_ordered_groups.
  delete from posthouse.job_dependencies where job_id = any (v_ended) and not keeps_order;
  return v_ended;
end $$;

-- Acquires the dedupe key for a job. Returns the job that has the key: this one if the key was free, else the holder. A
-- held key is read without a lock: the worker that ends its holder must not wait for the enqueuing transaction. Without
-- p_wait it raises PH009 instead of waiting for the row of a job that is to be replaced.
create or replace function posthouse.acquire_dedupe_key(r posthouse.request, p_wait boolean) returns uuid
language plpgsql as $$
declare
  v_key posthouse.dedupe_keys;
  v_until timestamptz := case
    when r.dedupe_window is not null then r.queued_at + make_interval(secs => r.dedupe_window)
    when r.on_duplicate = 'reuse' then 'infinity' end;
begin
  loop
    select * into v_key from posthouse.dedupe_keys
    where tenant_id = r.tenant_id and dedupe_key = r.dedupe_key;
    if found and (v_key.is_active or v_key.expires_at > r.queued_at) then
      if r.on_duplicate <> 'replace' or v_key.job_id = r.id then
        return v_key.job_id;
      end if;
      if not p_wait and not posthouse.try_lock_queued(v_key.job_id) then
        raise exception 'job % is locked by another transaction; try again', v_key.job_id using errcode = 'PH009';
      end if;
      if exists (
        select from posthouse.finish_queued(array[v_key.job_id], 'canceled', jsonb_build_object(
          'type', 'Replaced', 'message', format('replaced by job %s', r.id)))) then
        delete from posthouse.dedupe_keys  -- still there if it has a window
        where tenant_id = r.tenant_id and dedupe_key = r.dedupe_key and job_id = v_key.job_id;
      elsif posthouse.status_of(v_key.job_id) = 'queued' then
        continue;  -- it moved from waiting to ready in between
      else
        return v_key.job_id;
      end if;
    end if;
    insert into posthouse.dedupe_keys as d (tenant_id, dedupe_key, job_id, reuse_result, expires_at)
    values (r.tenant_id, r.dedupe_key, r.id, r.on_duplicate = 'reuse', v_until)
    on conflict (tenant_id, dedupe_key) do update
      set job_id = excluded.job_id, is_active = true, reuse_result = excluded.reuse_result, expires_at = excluded.expires_at
      where not d.is_active and (d.expires_at is null or d.expires_at <= r.queued_at);
    if found then
      return r.id;
    end if;
  end loop;
end $$;

-- Appends a job to its ordered group; returns the job before it, or null if the group is empty.
create or replace function posthouse.append_to_order(p_tenant text, p_order_key text, p_id uuid) returns uuid
language plpgsql as $$
declare
  v_before uuid;
begin
  loop
    select job_id into v_before from posthouse.order_tails
    where tenant_id = p_tenant and order_key = p_order_key for update;
    if found then
      update posthouse.order_tails set job_id = p_id
      where tenant_id = p_tenant and order_key = p_order_key;
      return v_before;
    end if;
    insert into posthouse.order_tails (tenant_id, order_key, job_id)
    values (p_tenant, p_order_key, p_id) on conflict do nothing;
    if found then
      return null;
    end if;
  end loop;
end $$;

-- Whether a job waits for another one, directly or through jobs between them.
create or replace function posthouse.waits_for(p_id uuid, p_other uuid) returns boolean
language sql stable as $$
  with recursive before as (
    select p_id as id
    union
    select b.depends_on from before join posthouse.job_dependencies as b on b.job_id = before.id
  )
  select exists (select from posthouse.job_dependencies where depends_on = p_other)
         and exists (select from before where id = p_other)
$$;

-- Makes a job wait for the job before it in its ordered group; returns how many edges were written. If that job was
-- canceled before its turn, its own edge leads to the job before it, which is tried next.
create or replace function posthouse.write_order_edge(p_before uuid, p_id uuid) returns integer
language plpgsql as $$
begin
  while p_before is not null loop
    if posthouse.status_of(p_before) in ('queued', 'running') then
      insert into posthouse.job_dependencies (depends_on, job_id, keeps_order) values (p_before, p_id, true);
      return 1;
    end if;
    p_before := (select b.depends_on from posthouse.job_dependencies as b where b.job_id = p_before and b.keeps_order);
  end loop;
  return 0;
end $$;

-- Writes the edges of a request; returns how many block the job, or -1 if a dependency already failed and the job must
-- not run. Even then its edge in its ordered group is written, because later jobs of the group will stand behind it.
create or replace function posthouse.write_edges(r posthouse.request) returns integer
language plpgsql as $$
declare
  v_dependency uuid;
  v_status text;
  v_blockers integer := posthouse.write_order_edge(r.follows, r.id);
begin
  for v_dependency in select distinct unnest(r.depends_on) loop
    v_status := posthouse.status_of(v_dependency);
    if v_status is null then
      raise exception 'job % depends on %, which does not exist', r.id, v_dependency
        using errcode = 'PH002', hint = 'Enqueue dependencies before the jobs that depend on them.';
    end if;
    if v_status in ('failed', 'canceled', 'dead_letter') and r.on_dependency_failure = 'cancel' then
      return -1;
    end if;
    if v_status in ('queued', 'running')
       or (v_status <> 'succeeded' and r.on_dependency_failure = 'wait') then
      insert into posthouse.job_dependencies (depends_on, job_id) values (v_dependency, r.id);
      v_blockers := v_blockers + 1;
    end if;
  end loop;
  return v_blockers;
end $$;

-- Releases the dedupe keys of ended jobs. A key with a window, or with a result to reuse, stays.
create or replace function posthouse.release_dedupe_keys(p_ids uuid[], p_statuses text[]) returns void
language plpgsql as $$
begin
  delete from posthouse.dedupe_keys as d
  using unnest(p_ids, p_statuses) as e (id, status)
  where d.job_id = e.id
    and (d.tenant_id, d.dedupe_key) in (
      select h.tenant_id, h.dedupe_key from posthouse.history as h
      where h.id = any (p_ids) and h.dedupe_key is not null)
    and not (d.reuse_result and e.status = 'succeeded')
    and (d.expires_at is null or d.expires_at <= posthouse.now() or d.reuse_result);
  update posthouse.dedupe_keys as d set is_active = false
  where d.job_id = any (p_ids)
    and (d.tenant_id, d.dedupe_key) in (
      select h.tenant_id, h.dedupe_key from posthouse.history as h
      where h.id = any (p_ids) and h.dedupe_key is not null);
end $$;

-- The jobs that must be canceled because these jobs ended without success, over all levels of dependencies.
create or replace function posthouse.dependents_to_cancel(p_ids uuid[], p_statuses text[]) returns uuid[]
language sql stable as $$
  with recursive doomed as (
    select b.job_id
    from unnest(p_ids, p_statuses) as e (id, status)
    join posthouse.job_dependencies as b on b.depends_on = e.id and not b.keeps_order
    join posthouse.waiting as w on w.id = b.job_id and w.on_dependency_failure = 'cancel'
    where e.status <> 'succeeded'
    union
    select b.job_id
    from doomed as d
    join posthouse.job_dependencies as b on b.depends_on = d.job_id and not b.keeps_order
    join posthouse.waiting as w on w.id = b.job_id and w.on_dependency_failure = 'cancel'
  )
  select coalesce(array_agg(job_id), '{}') from doomed
$$;

-- Locks the waiting rows that the end of these jobs changes: those of all dependents, including the dependents of jobs
-- that are canceled. All rows are locked in one statement and in one order; without p_wait only those that no other
-- transaction has locked.
create or replace function posthouse.lock_dependents(p_ids uuid[], p_statuses text[], p_wait boolean) returns uuid[]
language plpgsql as $$
declare
  v_roots uuid[] := p_ids || posthouse.dependents_to_cancel(p_ids, p_statuses);
  v_tree uuid[] := array(select b.job_id from posthouse.job_dependencies as b where b.depends_on = any (v_roots));
begin
  if p_wait then
    return array(select w.id from posthouse.waiting as w where w.id = any (v_tree) order by w.id for update);
  end if;
  return array(select w.id from posthouse.waiting as w where w.id = any (v_tree) for update skip locked);
end $$;

-- Closes gaps in ordered groups that jobs left before their turn. Such a job still has its edge in the group; the job
-- that stood behind it now stands behind the nearest job before it that is still queued or running.
create or replace function posthouse.relink_ordered_groups(p_ended uuid[], p_locked uuid[]) returns void
language sql as $$
  with recursive climb as (
    select b.job_id, b.depends_on as behind, b.depends_on as before
    from posthouse.job_dependencies as b
    where b.keeps_order and b.depends_on = any (p_ended) and b.job_id <> all (p_ended)
      and (b.job_id = any (p_locked) or not exists (select from posthouse.waiting as w where w.id = b.job_id))
    union
    select c.job_id, c.behind, b.depends_on
    from climb as c join posthouse.job_dependencies as b on b.keeps_order and b.job_id = c.before
    where c.before = any (p_ended)
  )
  update posthouse.job_dependencies as b set depends_on = c.before, xid = pg_current_xact_id()
  from climb as c
  where b.keeps_order and b.job_id = c.job_id and b.depends_on = c.behind and c.before <> all (p_ended)
$$;

-- Resolves the edges of ended jobs: of the dependents whose rows are in p_locked, it unblocks or cancels some and
-- leaves the others waiting, as on_dependency_failure says. The edges of all other dependents get a new xid, so that
-- the keeper checks them. All jobs that must be canceled are ended at once: one by one, a long chain would use up the
-- stack.
create or replace function posthouse.unblock(p_ids uuid[], p_statuses text[], p_locked uuid[] default null)
returns void
language plpgsql as $$
declare
  v_doomed uuid[];
  v_freed boolean;
begin
  p_locked := coalesce(p_locked, posthouse.lock_dependents(p_ids, p_statuses, true));
  if 'succeeded' <> any (p_statuses) then
    v_doomed := posthouse.move_queued_to_history(
      array(select unnest(posthouse.dependents_to_cancel(p_ids, p_statuses)) intersect select unnest(p_locked)),
      'canceled', jsonb_build_object(
        'type', 'DependencyFailed', 'message', 'a job that this one depends on did not succeed'));
    if v_doomed <> '{}' then
      perform posthouse.release_dedupe_keys(v_doomed, array_fill('canceled'::text, array[cardinality(v_doomed)]));
      perform posthouse.notify_finished(v_doomed);
      p_ids := p_ids || v_doomed;
      p_statuses := p_statuses || array_fill('canceled'::text, array[cardinality(v_doomed)]);
    end if;
  end if;
  perform posthouse.relink_ordered_groups(p_ids, p_locked);
  with gone as (
    delete from posthouse.job_dependencies as b
    using unnest(p_ids, p_statuses) as e (id, status)
    where b.depends_on = e.id
      and case
        when b.job_id = any (p_locked) then e.status = 'succeeded' or b.keeps_order or exists (
          select from posthouse.waiting as w where w.id = b.job_id and w.on_dependency_failure = 'run')
        else b.keeps_order and not exists (select from posthouse.waiting as w where w.id = b.job_id) end
    returning b.job_id
  ), less as (
    update posthouse.waiting as w set blockers = w.blockers - g.n
    from (select job_id, count(*)::integer as n from gone group by job_id) as g
    where w.id = g.job_id
    returning w.blockers
  )
  select coalesce(bool_or(blockers = 0), false) into v_freed from less;
  update posthouse.job_dependencies set xid = pg_current_xact_id()
  where ctid = any (array(
    select b.ctid from posthouse.job_dependencies as b
    where b.depends_on = any (p_ids) and b.job_id <> all (p_locked) for update skip locked));
  if v_freed then
    perform posthouse.promote();
  end if;
end $$;

-- Runs everything that follows from the end of jobs. Called once for each batch, in the transaction that ended the
-- jobs.
create or replace function posthouse.after_finish(
  p_ids uuid[], p_statuses text[], p_keyed boolean default true, p_locked uuid[] default null
) returns void
language plpgsql as $$
begin
  if p_keyed then
    perform posthouse.release_dedupe_keys(p_ids, p_statuses);
  end if;
  if exists (select from posthouse.job_dependencies where depends_on = any (p_ids)) then
    perform posthouse.unblock(p_ids, p_statuses, p_locked);
  end if;
  perform posthouse.notify_finished(p_ids);
end $$;

-- The xid that the next transaction gets, given the oldest one that runs. All transactions that run now have a lower
-- xid. In a transaction that has written, the result is its own xid.
create or replace function posthouse.next_xid(p_oldest xid8) returns xid8
language sql volatile as $$ select (p_oldest::text::bigint + age(p_oldest::xid))::text::xid8 $$;

-- Checks again the edges whose dependency ended while the edge was being committed: neither transaction saw the other.
-- p_cursor is the result of the previous call, so that only edges that could have raced are read: those with an xid
-- from p_cursor[1] on. An edge is done with when it was checked after the end of all transactions that ran while it was
-- committed: p_cursor[2] is the oldest xid that ran at some earlier call, p_cursor[3] the xid that would have come
-- next. When all transactions before [3] have ended, edges before [2] are done with. A transaction that has written
-- cannot see which xid comes next: call this before any write, or the cursor does not advance.
create or replace function posthouse.recheck_dependencies(p_cursor xid8[] default '{0,0,0}') returns xid8[]
language plpgsql as $$
declare
  v_written boolean := pg_current_xact_id_if_assigned() is not null;
  v_oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
  v_next xid8 := posthouse.next_xid(v_oldest);
  v_ids uuid[];
  v_statuses text[];
begin
  select array_agg(e.id), array_agg(e.status) into v_ids, v_statuses
  from (
    select h.id, h.status from posthouse.history as h
    where h.id = any (array(select b.depends_on from posthouse.job_dependencies as b where b.xid >= p_cursor[1]))
    for share skip locked) as e;  -- a job that is being reopened does not count as ended
  if v_ids is not null then
    perform posthouse.unblock(v_ids, v_statuses);
  end if;
  return case
    when v_written or v_oldest < p_cursor[3] then p_cursor
    else array[p_cursor[2], v_oldest, v_next] end;
end $$;
