-- Workers and their leases: register, renew, and take back what was lost.

-- Who disabled a worker that was given a name meant whoever bears it: it stays disabled when it is started again.
-- Names that we make up from a process are not kept in mind, since numbers of processes come back. One that comes over
-- the API is bound to its key, and claims no more than that is good for; null: this id is another's.
create function posthouse.register(
  p_id uuid, p_name text, p_hostname text, p_pid integer, p_version text, p_queues text[],
  p_kinds text[], p_concurrency integer, p_capabilities jsonb, p_metadata jsonb,
  p_offers text[] default '{}', p_key text default null, p_only_tenant text default null,
  p_only_queues text[] default null
) returns integer
language sql as $$
  with known as (
    insert into posthouse.workers (
      id, name, hostname, pid, version, queues, kinds, concurrency, capabilities, metadata, offers, key,
      only_tenant, only_queues, started_at, heartbeat_at, disabled_at)
    values (
      p_id, p_name, p_hostname, p_pid, p_version, p_queues, p_kinds, p_concurrency, p_capabilities,
      p_metadata, p_offers, p_key, p_only_tenant, p_only_queues, posthouse.now(), posthouse.now(),
      (select w.disabled_at from posthouse.workers as w
       where w.name = p_name and p_name <> concat(p_hostname, ':', p_pid) order by w.started_at desc limit 1))
    on conflict (id) do update set stopped_at = null, missing_since = null, heartbeat_at = posthouse.now()
      where workers.key is not distinct from p_key
    returning number, started_at, xmax = 0 as new
  ), noted as (
    insert into posthouse.worker_changes (at, worker_id, name, change)
    select started_at, p_id, p_name, 'started' from known where new
  )
  select number from known
$$;

-- Holds the worker's liveness lock in this session: Postgres frees it when the process dies.
create function posthouse.watch(p_worker uuid) returns void
language plpgsql as $$
declare
  v_number integer;
begin
  select number into strict v_number from posthouse.workers where id = p_worker;
  perform pg_advisory_lock_shared(7701, v_number);
  update posthouse.workers set watched = true, missing_since = null where id = p_worker;
end $$;

create function posthouse.sign_off(p_worker uuid) returns void
language sql as $$
  with off as (
    update posthouse.workers set stopped_at = posthouse.now(), missing_since = null, lost_at = null
    where id = p_worker and (stopped_at is null or lost_at is not null)
    returning id, name, stopped_at
  )
  insert into posthouse.worker_changes (at, worker_id, name, change) select stopped_at, id, name, 'stopped' from off
$$;

-- One beat for the whole worker: it is alive, and these leases go on. Returns what it must drop: leases
-- that are gone, and jobs whose cancellation was asked for. A row that somebody else has locked is passed over
-- (most likely it is being finished) and told as busy: its lease was not renewed. If an operator wants the worker
-- to finish its work and stop, its own id is there too, with drain.
create function posthouse.heartbeat(p_worker uuid, p_ids uuid[], p_tokens uuid[], p_lease interval)
returns table (id uuid, verdict text)
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_drain boolean;
begin
  update posthouse.workers as w
  set heartbeat_at = v_now, missing_since = null, stopped_at = null where w.id = p_worker
  returning w.drain_asked_at is not null into v_drain;
  if v_drain then
    return query select p_worker, 'drain'::text;
  end if;
  if cardinality(p_ids) = 0 then
    return;
  end if;
  return query
    with renewed as (
      update posthouse.running as r set lease_expires_at = v_now + p_lease
      where r.ctid = any (array(
        select l.ctid from posthouse.running as l
        where l.id = any (p_ids)
          and ((l.id, l.token) in (select u.id, u.token from unnest(p_ids, p_tokens) as u (id, token))) is true
        order by l.id for update of l skip locked))
      returning r.id
    )
    select held.id, case
      when r.id is null then 'lost' when r.cancel_requested_at is not null then 'cancel' else 'busy' end
    from unnest(p_ids, p_tokens) as held (id, token)
    left join renewed as n on n.id = held.id
    left join (select * from posthouse.running as l where l.id = any (p_ids)) as r
      on r.id = held.id and r.token = held.token
    where n.id is null or r.cancel_requested_at is not null;
end $$;

-- Notices workers whose liveness lock is free. One look is not enough: a live worker whose connection broke
-- takes its lock again within p_patience, and a second look finds it held. After a restart of Postgres
-- nobody holds one yet: p_grace is their time to come back.
--
-- The lock does not tell of all: behind a pooler there is none, a worker may die before it holds one, and that of a
-- machine that vanished stays for a while. So whoever has not beaten for p_silence is gone too, unless it has a lease
-- that somebody renewed since. Without p_silence nobody is: whoever has just begun to look, or could not look for a
-- while, does not know whether they were quiet or everything stood still. The next beat of one that was only quiet
-- brings it back.
create function posthouse.bury_dead(
  p_grace interval default '10 seconds', p_patience interval default '1 second',
  p_silence interval default '1 minute'
) returns setof uuid
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_worker record;
begin
  if clock_timestamp() < pg_postmaster_start_time() + p_grace then
    return;
  end if;
  for v_worker in
    select id, name, number, missing_since from posthouse.workers where watched and stopped_at is null
  loop
    if not pg_try_advisory_lock(7701, v_worker.number) then
      if v_worker.missing_since is not null then
        update posthouse.workers set missing_since = null where id = v_worker.id;
      end if;
      continue;
    end if;
    perform pg_advisory_unlock(7701, v_worker.number);
    if v_worker.missing_since is null then
      update posthouse.workers set missing_since = v_now where id = v_worker.id;
    elsif v_worker.missing_since <= v_now - p_patience then
      -- Conditional, so that it cannot race a beat that arrives now.
      update posthouse.workers set stopped_at = v_now, lost_at = v_now
      where id = v_worker.id and missing_since = v_worker.missing_since and stopped_at is null;
      if found then
        insert into posthouse.worker_changes (at, worker_id, name, change)
        values (v_now, v_worker.id, v_worker.name, 'lost');
        return next v_worker.id;
      end if;
    end if;
  end loop;
  return query
    with lost as (
      update posthouse.workers as w
      set stopped_at = v_now, lost_at = v_now, missing_since = coalesce(w.missing_since, v_now)
      where w.stopped_at is null and coalesce(w.heartbeat_at, w.started_at) < v_now - p_silence
        and not exists (
          select from posthouse.running as r where r.worker_id = w.id and r.lease_expires_at >= v_now)
      returning w.id, w.name
    ), noted as (
      insert into posthouse.worker_changes (at, worker_id, name, change) select v_now, id, name, 'lost' from lost
    )
    select id from lost;
end $$;

-- Notices workers that were thought lost and have beaten since. Each is told once, whoever asks.
create function posthouse.welcome_back() returns setof uuid
language sql as $$
  with back as (
    update posthouse.workers as w set lost_at = null
    where w.lost_at is not null and w.stopped_at is null
    returning w.id, w.name
  ), noted as (
    insert into posthouse.worker_changes (at, worker_id, name, change)
    select posthouse.now(), id, name, 'back' from back
  )
  select id from back
$$;

-- Takes back lost leases: those of workers that stopped or were buried, and expired ones. Each counts a crash; a
-- job that has used up its attempts, or that was there when p_crash_limit workers died, goes to the dead letter.
-- p_grace after a restart of Postgres nothing has expired: nobody could renew while it was away; nor has anything
-- without p_expired, for keepers who cannot tell (see bury_dead). Who is dead is
-- read from the workers, not passed in: a keeper that dies after burying one leaves nothing undone. What a worker
-- claimed after it was thought dead shows that it is not.
create function posthouse.rescue(
  p_crash_limit integer default 3, p_grace interval default '10 seconds', p_limit integer default 1000,
  p_expired boolean default true
) returns table (id uuid, worker_id uuid, event text)
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_expired_before timestamptz := case
    when not p_expired or clock_timestamp() < pg_postmaster_start_time() + p_grace then '-infinity'
    else v_now end;
  v_lost record;
begin
  with lost as (
    select r.id, r.token, r.worker_id, r.attempt_count, r.max_attempts, r.crashes
    from posthouse.running as r
    where r.lease_expires_at < v_expired_before
      or exists (select from posthouse.workers as w where w.id = r.worker_id and w.stopped_at >= r.attempt_started_at)
    order by r.id limit p_limit for update skip locked
  ), verdict as (
    select lost.*, case
      when attempt_count >= max_attempts or crashes + 1 >= p_crash_limit then 'exhaust'
      else 'rescue' end as event
    from lost
  )
  select array_agg(v.id) as ids, array_agg(v.token) as tokens, array_agg(v.worker_id) as workers,
         array_agg(v.event) as events, array_agg(jsonb_build_object(
           'type', case when v.crashes + 1 >= p_crash_limit then 'Poison' else 'WorkerLost' end,
           'message', format('worker %s stopped renewing the lease', v.worker_id))) as errors
  into v_lost from verdict as v;
  if v_lost.ids is null then
    return;
  end if;
  perform posthouse.settle(
    v_lost.ids, v_lost.tokens, v_lost.events,
    array_fill('lost'::text, array[cardinality(v_lost.ids)]),
    array_fill(0::double precision, array[cardinality(v_lost.ids)]), v_lost.errors);
  return query select u.* from unnest(v_lost.ids, v_lost.workers, v_lost.events) as u;
end $$;
