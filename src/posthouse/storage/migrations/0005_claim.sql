-- Claim: the heads of the lanes that a worker can serve, in order of priority and turn, fair over tenants, within
-- the limits.

-- What a claim knows of limits (see 0012_limits.sql): the lanes where it saw somebody wait, and no others may be
-- claimed from. Of the limited ones, how many rows fit. And beside each other a lane, its slot, what a start costs
-- there, how many may start and how many tokens there are.
create type posthouse.held_slots as (
  seen bigint[],
  limited bigint[],
  fits integer[],
  lanes bigint[],
  slots text[],
  costs double precision[],
  free integer[],
  tokens double precision[]
);

-- p_token is made by the worker, new for each claim: repeating a claim whose reply was lost returns what
-- the first one took. p_lanes and p_marks say behind which position each known lane is to be read; a worker
-- passes none of them to look from the start. p_careful: it may take one suspect. p_offers: its capabilities.
-- p_tenants and p_served: how much it has lately given to whom, each by its weight.
--
-- First a plan: how many rows each lane gives. Only then are rows locked, lane by lane: locking all candidates and
-- sorting afterwards would hide them from every other worker for the length of the claim. A row may have been
-- committed after v_now was read: it starts no earlier than it was due all the same. Rows are deleted by ctid:
-- joining the picked rows by key made the planner scan the table.
create function posthouse.claim(
  p_worker uuid, p_token uuid, p_queues text[], p_kinds text[], p_limit integer, p_lease interval,
  p_lanes bigint[] default '{}', p_marks bigint[] default '{}', p_careful boolean default true,
  p_offers text[] default '{}', p_tenants text[] default '{}', p_served double precision[] default '{}',
  p_patience interval default '20 seconds'
) returns setof posthouse.running
language plpgsql
set enable_bitmapscan = off
set enable_nestloop = off  -- but for the laterals, which know no other way: with 3,000 lanes it took 1 s a claim
set jit = off  -- what is off counts as very dear, and very dear plans are compiled
set enable_seqscan = off  -- a plan made while ready was empty must not scan it when it is not
set plan_cache_mode = force_generic_plan  -- the arguments never change the plan; planning took 0.2 ms
as $$
declare
  v_now timestamptz := posthouse.now();
  v_chosen bigint[];   -- lanes in the order of the rows to take, one entry a row
  v_held posthouse.held_slots;
begin
  if exists (select from posthouse.workers as w where w.id = p_worker
             and (w.disabled_at is not null or w.drain_asked_at is not null)) then
    return;
  end if;
  perform pg_advisory_xact_lock_shared(7707, 0);  -- whoever makes a limit counts who runs: not while we claim
  if exists (select from posthouse.limits) then
    v_held := posthouse.hold_slots(p_queues, p_kinds, p_lanes, p_marks, v_now);
  end if;
  with known as materialized (
    select distinct on (d.lane) d.lane, d.priority, d.turn, d.tenant_id, coalesce(m.mark, 0) as mark
    from posthouse.lanes as d
    left join unnest(p_lanes, p_marks) as m (lane, mark) on m.lane = d.lane
    where d.queue = any (p_queues) and d.kind = any (p_kinds)
      and d.queue <> all (array(select q.name from posthouse.queues as q where q.paused_at is not null))
      and (d.requires is null or d.requires <@ p_offers)
      and (d.prefers is null or d.prefers <@ p_offers
           or not posthouse.left_to_others(d.lane, d.queue, d.kind, d.prefers, v_now, p_patience))
      and (v_held.seen is null or d.lane = any (v_held.seen))
  ), busy as materialized (  -- those where somebody waits
    select k.*, coalesce(t.weight, 1) as weight, coalesce(h.fits, p_limit) as fits
    from known as k
    left join posthouse.tenants as t on t.id = k.tenant_id
    left join unnest(v_held.limited, v_held.fits) as h (lane, fits) on h.lane = k.lane
    -- Not exists (...): that could become a join with all of ready.
    where (select true from posthouse.ready as r where r.lane = k.lane and r.position > k.mark limit 1)
  ), peek as (
    select b.*, r.position,
           row_number() over (partition by b.priority, b.tenant_id order by b.turn, r.position) as nth
    from busy as b cross join lateral (
      select position from posthouse.ready as r
      where r.lane = b.lane and r.position > b.mark
      -- Deep enough to fill the claim from any half of the lanes: reading all of each would cost lanes x limit.
      order by r.position limit case
        when b.turn > 0 then least(b.fits, 1 + 2 * p_limit / (select count(*) from busy))
        when p_careful and b.lane = (select lane from busy where turn = 0 order by priority limit 1) then least(b.fits, 1)
        else 0 end) as r
  ), served as (
    select s.tenant_id, s.share, min(s.share) over () as least
    from unnest(p_tenants, p_served) as s (tenant_id, share)
  )
  select array_agg(c.lane) into v_chosen
  from (
    select p.lane from peek as p left join served as s on s.tenant_id = p.tenant_id
    order by p.priority, p.turn,
      -- Who was served little comes first; who was not served lately starts level with the least served.
      coalesce(s.share, (select least from served limit 1), 0) + (p.nth - 1) / p.weight, s.share is not null,
      p.position
    limit p_limit) as c;
  if v_chosen is null then
    return;
  end if;
  if v_held.slots is not null then
    v_chosen := posthouse.within_slots(v_chosen, v_held);
  end if;
  return query
  with share as materialized (
    select c.lane, count(*) as n, coalesce(min(m.mark), 0) as mark
    from unnest(v_chosen) as c (lane) left join unnest(p_lanes, p_marks) as m (lane, mark) on m.lane = c.lane
    group by c.lane
  ), gone as (
    delete from posthouse.ready where ctid = any (array(
      select r.ctid from share cross join lateral (
        select ctid from posthouse.ready as r
        where r.lane = share.lane and r.position > share.mark
        order by r.position limit share.n for update skip locked) as r))
    returning
      id, parent_id, queued_at, scheduled_for, coalesce(started_at, greatest(v_now, scheduled_for)),
      priority, attempt_count + 1, max_attempts, generation, crashes, snoozes, timeout_seconds,
      progress_percent, tenant_id, kind, queue, source, payload, dedupe_key, order_key, correlation_id,
      subject, source_ref, created_by, retry, depends_on, limit_key, requires, prefers, current_step,
      progress_message, last_error, lane, position
  ), slotted as (
    select h.lane, array_agg(h.slot) as slots from unnest(v_held.lanes, v_held.slots) as h (lane, slot) group by h.lane
  ), started as (
    insert into posthouse.running as new
    select gone.*, p_token, p_worker, greatest(v_now, gone.scheduled_for), v_now + p_lease, null, slotted.slots
    from gone left join slotted on slotted.lane = gone.lane
    returning new.*
  ), taken as (
    update posthouse.limit_slots as s
    set in_use = s.in_use + u.jobs, tokens = s.tokens - u.cost
    from (select h.slot, sum(h.cost) as cost, count(*) as jobs
          from started join unnest(v_held.lanes, v_held.slots, v_held.costs) as h (lane, slot, cost)
            on h.lane = started.lane
          group by h.slot) as u
    where s.slot = u.slot
  )
  select * from started;
end $$;

-- What a claim with this token took, for a worker that did not hear the answer.
create function posthouse.claimed(p_token uuid) returns setof posthouse.running
language sql stable as $$ select * from posthouse.running where token = p_token $$;

-- Whether a worker that lacks what a lane prefers should leave it to one that has it: if such a one was seen lately
-- and has a free place, and the lane's first job has not waited for longer than p_patience.
create function posthouse.left_to_others(
  p_lane bigint, p_queue text, p_kind text, p_prefers text[], p_now timestamptz, p_patience interval
) returns boolean
language sql stable as $$
  select coalesce((
      select r.scheduled_for > p_now - p_patience from posthouse.ready as r
      where r.lane = p_lane order by r.position limit 1), false)
    and exists (
      select from posthouse.workers as w
      where w.stopped_at is null and w.disabled_at is null and w.drain_asked_at is null
        and w.heartbeat_at > p_now - p_patience
        and p_prefers <@ w.offers and p_queue = any (w.queues) and p_kind = any (w.kinds)
        and (select count(*) from posthouse.running as r where r.worker_id = w.id) < w.concurrency)
$$;
