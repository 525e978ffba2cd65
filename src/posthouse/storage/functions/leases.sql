-- Workers and their leases: register, renew, and rescue the jobs of lost workers.

-- Registers a worker and returns its number. A disabled worker with a configured name stays disabled when it is started
-- again. Names that Posthouse generates from a process are not remembered, since process numbers are reused. A worker
-- that registers over the API is bound to its key, and claims only what the key permits. Null: the id belongs to
-- another worker.
create or replace function posthouse.register(
  p_id uuid, p_name text, p_hostname text, p_pid integer, p_version text, p_queues text[],
  p_kinds text[], p_concurrency integer, p_capability_details jsonb, p_metadata jsonb,
  p_capabilities text[] default '{}', p_key text default null, p_only_tenant text default null,
  p_only_queues text[] default null, p_offline_after interval default '5 minutes', p_code text default null
) returns integer
language sql as $$
  with known as (
    insert into posthouse.workers (
      id, name, hostname, pid, version, queues, kinds, concurrency, capability_details, metadata, capabilities, key,
      only_tenant, only_queues, offline_after, code, started_at, heartbeat_at, disabled_at)
    values (
      p_id, p_name, p_hostname, p_pid, p_version, p_queues, p_kinds, p_concurrency, p_capability_details,
      p_metadata, p_capabilities, p_key, p_only_tenant, p_only_queues, p_offline_after,
      coalesce(nullif(p_code, ''), p_id::text), posthouse.now(), posthouse.now(),
      (select w.disabled_at from posthouse.workers as w
       where w.name = p_name and p_name <> concat(p_hostname, ':', p_pid) order by w.started_at desc limit 1))
    on conflict (id) do update
      set stopped_at = null, missing_since = null, heartbeat_at = posthouse.now(), version = excluded.version
      where workers.key is not distinct from p_key
    returning number, started_at, xmax = 0 as new
  ), noted as (
    insert into posthouse.worker_changes (at, worker_id, name, change)
    select started_at, p_id, p_name, 'started' from known where new
  )
  select number from known
$$;

-- Takes the worker's liveness lock in this session: Postgres releases it when the process dies.
create or replace function posthouse.take_liveness_lock(p_worker uuid) returns void
language plpgsql as $$
declare
  v_number integer;
begin
  select number into strict v_number from posthouse.workers where id = p_worker;
  perform pg_advisory_lock_shared(7701, v_number);
  update posthouse.workers set watched = true, missing_since = null where id = p_worker;
end $$;

create or replace function posthouse.sign_off(p_worker uuid) returns void
language sql as $$
  with off as (
    update posthouse.workers set stopped_at = posthouse.now(), missing_since = null, lost_at = null
    where id = p_worker and (stopped_at is null or lost_at is not null)
    returning id, name, stopped_at
  )
  insert into posthouse.worker_changes (at, worker_id, name, change) select stopped_at, id, name, 'stopped' from off
$$;

-- The heartbeat of a worker: records that it is alive, and renews these leases. Returns what the worker must drop:
-- leases that are lost, and jobs whose cancellation was requested. A row that another transaction has locked is skipped
-- (most likely the job is being finished) and returned as busy: its lease was not renewed. If an operator drains the
-- worker, its own id is returned too, with drain. A heartbeat that arrives after the worker has signed off does not
-- revive it; one of a worker that was considered lost does.
create or replace function posthouse.heartbeat(p_worker uuid, p_ids uuid[], p_tokens uuid[], p_lease interval)
returns table (id uuid, verdict text)
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_drain boolean;
begin
  update posthouse.workers as w
  set heartbeat_at = v_now, lease = p_lease, missing_since = null,
      stopped_at = case when w.lost_at is null then w.stopped_at end
  where w.id = p_worker
  returning w.drain_requested_at is not null into v_drain;
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
    where n.id is null or r.id is null or r.cancel_requested_at is not null;
end $$;

-- Records that an API server runs. A gap of more than p_gap resets reachable_since: the server was suspended, or had no
-- database, and could not renew leases.
create or replace function posthouse.server_beat(
  p_id uuid, p_hostname text, p_pid integer, p_gap interval default '15 seconds'
) returns void
language sql as $$
  delete from posthouse.servers where heartbeat_at < posthouse.now() - interval '1 day';
  insert into posthouse.servers as s (id, hostname, pid, reachable_since, heartbeat_at)
  values (p_id, p_hostname, p_pid, posthouse.now(), posthouse.now())
  on conflict (id) do update set
    reachable_since = case
      when s.heartbeat_at < posthouse.now() - p_gap then posthouse.now() else s.reachable_since end,
    heartbeat_at = posthouse.now()
$$;

create or replace function posthouse.server_leave(p_id uuid) returns void
language sql as $$
  delete from posthouse.servers where id = p_id
$$;

-- Whether remote workers have had the chance to renew their leases: an API server has been running for p_grace without
-- a gap. Until then a missing heartbeat of a remote worker says nothing about the worker.
create or replace function posthouse.servers_settled(p_grace interval, p_gap interval default '15 seconds') returns boolean
language sql stable as $$
  select p_grace <= interval '0' or exists (
    select from posthouse.servers
    where heartbeat_at >= posthouse.now() - p_gap and reachable_since <= posthouse.now() - p_grace)
$$;

-- Whether a remote worker is known to have died: a later worker with its key was started on its host after its last
-- heartbeat. Otherwise silence can also mean that the network between the worker and the server was down.
create or replace function posthouse.was_replaced(w posthouse.workers) returns boolean
language sql stable as $$
  select w.hostname <> '' and exists (
    select from posthouse.workers as o
    where o.key = w.key and o.hostname = w.hostname and o.started_at > coalesce(w.heartbeat_at, w.started_at))
$$;

-- Finds workers whose liveness lock is free. One check is not enough: a live worker whose connection broke takes its
-- lock again within p_patience, and a second check finds it held. After a restart of Postgres no lock is held: p_grace
-- is the time that workers have to reconnect.
--
-- The lock does not cover every case: behind a pooler there is none, a worker may die before it takes its lock, and the
-- lock of a machine that vanished stays for a while. So a worker without a heartbeat for p_silence, by default the
-- offline_after with which it registered, is lost too, unless it has a lease that was renewed since. Without p_judge
-- heartbeats are ignored: a keeper that has just started, or was suspended, does not know whether workers were silent
-- or the whole machine stood still. Remote workers are checked only after an API server has been running for
-- p_remote_grace. A worker that was merely silent returns with its next heartbeat.
create or replace function posthouse.mark_lost_workers(
  p_grace interval default '10 seconds', p_patience interval default '1 second',
  p_silence interval default null, p_judge boolean default true, p_remote_grace interval default '2 minutes'
) returns setof uuid
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_worker record;
  v_remote boolean := p_judge and posthouse.servers_settled(p_remote_grace);
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
      -- Conditional, so that it cannot race a heartbeat that arrives now.
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
      where w.stopped_at is null and p_judge and (w.key is null or v_remote)
        and coalesce(w.heartbeat_at, w.started_at) < v_now - coalesce(p_silence, w.offline_after)
        and not exists (
          select from posthouse.running as r where r.worker_id = w.id and r.lease_expires_at >= v_now)
      returning w.id, w.name
    ), noted as (
      insert into posthouse.worker_changes (at, worker_id, name, change) select v_now, id, name, 'lost' from lost
    )
    select id from lost;
end $$;

-- Finds workers that were considered lost and have sent a heartbeat since. Each is returned once.
create or replace function posthouse.mark_returned_workers() returns setof uuid
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

-- Rescues the jobs of lost leases: leases of workers that stopped or were found lost, and expired ones. No lease counts
-- as expired within p_grace after a restart of Postgres, because no worker could renew while it was down; nor without
-- p_expired, for keepers that cannot judge (see mark_lost_workers); nor, for remote workers, until an API server has
-- been running for p_remote_grace. Lost workers are read from the table, not passed in, so a keeper that dies after
-- marking one leaves nothing undone. A job that a worker claimed after it was considered lost is not rescued: the claim
-- shows that the worker is alive.
--
-- Each rescue counts a crash: a job that was running when p_crash_limit workers died, or that has used up its attempts,
-- becomes a dead letter. Two cases are not a crash (LeaseExpired). The worker signed off, or sent a heartbeat in the
-- second half of the lease that did not renew it: a heartbeat renews every lease that is older than half an interval,
-- and an interval is at most half a lease, so the worker is alive but does not have the job, because the reply to its
-- claim or its report was lost, as when a server restarts. Or a remote worker became silent and nothing shows that it
-- died.
--
-- Each rescued job is delayed by a random time up to p_jitter, so that the jobs of a lost worker do not all start at once.
create or replace function posthouse.rescue(
  p_crash_limit integer default 3, p_grace interval default '10 seconds', p_limit integer default 1000,
  p_expired boolean default true, p_remote_grace interval default '2 minutes', p_jitter interval default '0 seconds'
) returns table (id uuid, worker_id uuid, event text)
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_expired_before timestamptz := case
    when not p_expired or clock_timestamp() < pg_postmaster_start_time() + p_grace then '-infinity'
    else v_now end;
  v_remote boolean := posthouse.servers_settled(p_remote_grace);
  v_lost record;
begin
  with lost as (
    select r.id, r.token, r.worker_id, r.attempt_count, r.max_attempts, r.crashes, exists (
      select from posthouse.workers as w
      where w.id = r.worker_id
        and (case when w.stopped_at is null then w.heartbeat_at > r.lease_expires_at - w.lease / 2
                  else w.lost_at is null end
             or w.key is not null and not posthouse.was_replaced(w))) as alive
    from posthouse.running as r
    where r.lease_expires_at < v_expired_before and (v_remote or not exists (
        select from posthouse.workers as w where w.id = r.worker_id and w.key is not null))
      or exists (select from posthouse.workers as w where w.id = r.worker_id and w.stopped_at >= r.attempt_started_at)
    order by r.id limit p_limit for update skip locked
  ), verdict as (
    select lost.*, case
      when attempt_count >= max_attempts or (crashes + 1 >= p_crash_limit and not alive) then 'exhaust'
      else 'rescue' end as event
    from lost
  )
  select array_agg(v.id) as ids, array_agg(v.token) as tokens, array_agg(v.worker_id) as workers,
         array_agg(v.event) as events, array_agg(random() * extract(epoch from p_jitter)::double precision) as delays,
         array_agg(jsonb_build_object(
           'type', case
             when v.alive then 'LeaseExpired' when v.crashes + 1 >= p_crash_limit then 'Poison' else 'WorkerLost' end,
           'message', format(
             case when v.alive then 'the lease of worker %s expired before it reported an outcome; no crash is known'
                  else 'worker %s stopped renewing the lease' end, v.worker_id))) as errors
  into v_lost from verdict as v;
  if v_lost.ids is null then
    return;
  end if;
  perform posthouse.settle(
    v_lost.ids, v_lost.tokens, v_lost.events,
    array_fill('lost'::text, array[cardinality(v_lost.ids)]), v_lost.delays, v_lost.errors);
  return query select u.* from unnest(v_lost.ids, v_lost.workers, v_lost.events) as u;
end $$;

-- Ends a worker whose process was killed by its supervisor, which knows the cause: the jobs in p_blockers blocked the
-- process and count a crash, the other jobs of the worker are released without using an attempt. p_blockers null: no
-- particular job is known to have blocked the process, so all of them count a crash. An empty array releases all. The
-- worker is recorded as lost unless the array is empty.
create or replace function posthouse.end_worker(
  p_worker uuid, p_blockers uuid[], p_error jsonb default null, p_crash_limit integer default 3
) returns table (id uuid, event text)
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_crashed boolean := p_blockers is null or p_blockers <> '{}';
  v_held record;
begin
  with off as (
    update posthouse.workers as w
    set stopped_at = v_now, missing_since = null, lost_at = case when v_crashed then v_now end
    where w.id = p_worker and w.stopped_at is null
    returning w.id, w.name
  )
  insert into posthouse.worker_changes (at, worker_id, name, change)
  select v_now, off.id, off.name, case when v_crashed then 'lost' else 'stopped' end from off;
  with held as (
    select r.id, r.token, p_blockers is null or r.id = any (p_blockers) as blocked,
           r.crashes + 1 >= p_crash_limit as poison, r.attempt_count >= r.max_attempts as spent
    from posthouse.running as r where r.worker_id = p_worker
    order by r.id for update
  ), verdict as (
    select h.*, case when not blocked then 'release' when poison or spent then 'exhaust' else 'rescue' end as event
    from held as h
  )
  select array_agg(v.id) as ids, array_agg(v.token) as tokens, array_agg(v.event) as events,
         array_agg(case when v.blocked then 'crashed' else 'released' end) as outcomes,
         array_agg(case when v.blocked then
           p_error || jsonb_build_object('type', case when v.poison then 'Poison' else 'Crashed' end) end) as errors
  into v_held from verdict as v;
  if v_held.ids is null then
    return;
  end if;
  perform posthouse.settle(
    v_held.ids, v_held.tokens, v_held.events, v_held.outcomes,
    array_fill(0::double precision, array[cardinality(v_held.ids)]), v_held.errors);
  return query select u.* from unnest(v_held.ids, v_held.events) as u;
end $$;

-- When a worker that could claim such a job was last online: infinity if one is online now, null if there never was
-- one. It runs with the rights of its owner, because a tenant does not see the table of workers.
create or replace function posthouse.last_served(p_queue text, p_kind text, p_tenant text, p_requires text[]) returns timestamptz
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select max(coalesce(w.stopped_at, 'infinity')) from posthouse.workers as w
  where p_queue = any (w.queues) and p_kind = any (w.kinds) and posthouse.meets(p_requires, w.capabilities, w.code)
    and (w.only_tenant is null or w.only_tenant = p_tenant) and (w.only_queues is null or p_queue = any (w.only_queues))
$$;

-- When a worker first released a job because only newer code accepts its payload (see meets). -infinity if the record
-- of that attempt was deleted, which means that it is old.
create or replace function posthouse.first_mismatch(p_job uuid, p_generation integer) returns timestamptz
language sql stable as $$
  select coalesce(min(a.finished_at), '-infinity') from posthouse.past_attempts as a
  where a.job_id = p_job and a.generation = p_generation and a.error ->> 'type' = 'PayloadMismatch'
$$;

-- Ends jobs whose payload no worker accepts, if no worker that could run them was online for p_after: they would wait
-- forever. While such a worker is online, they wait for their turn, as all jobs do. Reads up to p_limit jobs at the
-- head of each of their lanes.
create or replace function posthouse.expire_mismatched(p_after interval, p_limit integer default 1000) returns setof uuid
language plpgsql as $$
declare
  v_before timestamptz := posthouse.now() - p_after;
  v_ids uuid[] := array(
    select r.id from (
      select distinct l.lane from posthouse.lanes as l
      where l.requires <> coalesce(posthouse.without_code_exclusions(l.requires), '{}')
        and coalesce(posthouse.last_served(l.queue, l.kind, l.tenant_id, l.requires), '-infinity') <= v_before) as l
    cross join lateral (
      select r.id, r.generation from posthouse.ready as r where r.lane = l.lane order by r.position limit p_limit) as r
    where posthouse.first_mismatch(r.id, r.generation) <= v_before
    limit p_limit);
begin
  if v_ids <> '{}' then
    return query select e from posthouse.finish_queued(v_ids, 'dead_letter', jsonb_build_object(
      'type', 'PayloadMismatch', 'message', format(
        'workers with older code did not accept the payload, and none with newer code was connected for %s seconds',
        extract(epoch from p_after)::integer))) as e;
  end if;
end $$;
