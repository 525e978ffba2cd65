-- Claim: the heads of the lanes that a worker can serve, in order of priority and turn, fair over tenants, within
-- the limits.

-- Whether a worker offers what a job requires. A word "!code" excludes workers with this version of the code, whose
-- handler does not accept the payload (see move_settled).
create or replace function posthouse.meets(p_requires text[], p_offers text[], p_code text) returns boolean
language sql immutable parallel safe as $$
  select not exists (
    select from unnest(p_requires) as r (word)
    where case when r.word like '!%' then r.word = '!' || p_code else r.word <> all (p_offers) end)
$$;

-- What a job requires without these words: a retry offers it to all workers again.
create or replace function posthouse.without_marks(p_requires text[]) returns text[]
language sql immutable parallel safe as $$
  select nullif(array(select r.word from unnest(p_requires) as r (word) where r.word not like '!%'), '{}')
$$;

-- p_token is made by the worker, new for each claim: repeating a claim whose reply was lost returns what
-- the first one took. p_lanes and p_marks say behind which position each known lane is to be read; a worker
-- passes none of them to look from the start. p_careful: it may take one suspect. p_offers: its capabilities.
-- p_tenants and p_served: how much it has lately given to whom, each by its weight. p_least: claim nothing if fewer
-- jobs can start; for batch handlers (see ready_batches).
--
-- First a plan: how many rows each lane gives. Only then are rows locked, lane by lane: locking all candidates and
-- sorting afterwards would hide them from every other worker for the length of the claim. A row may have been
-- committed after v_now was read: it starts no earlier than it was due all the same. Rows are deleted by ctid:
-- joining the picked rows by key made the planner scan the table.
--
-- The usual claim of an idle worker finds one busy lane and no limits. It needs no plan: 170 us instead of 250.
create or replace function posthouse.claim(
  p_worker uuid, p_token uuid, p_queues text[], p_kinds text[], p_limit integer, p_lease interval,
  p_lanes bigint[] default '{}', p_marks bigint[] default '{}', p_careful boolean default true,
  p_offers text[] default '{}', p_tenants text[] default '{}', p_served double precision[] default '{}',
  p_patience interval default '20 seconds', p_least integer default 0
) returns setof posthouse.running
language plpgsql
set enable_bitmapscan = off
set enable_nestloop = off  -- but for the laterals, which know no other way: with 3,000 lanes it took 1 s a claim
set jit = off  -- disabled plan nodes have a huge cost, which would trigger JIT compilation
set enable_seqscan = off  -- a plan made while ready was empty must not scan it when it is not
set plan_cache_mode = force_generic_plan  -- the arguments never change the plan; planning took 0.2 ms
as $$
declare
  v_now timestamptz := posthouse.now();
  v_held posthouse.held_slots;
  v_busy posthouse.busy_lanes;
  v_chosen bigint[];  -- lanes in the order of the rows to take, one entry a row
  v_started bigint;
  v_worker record;
begin
  select w.disabled_at is not null or w.drain_asked_at is not null as is_off, w.only_tenant, w.only_queues, w.code
  into v_worker from posthouse.workers as w where w.id = p_worker;
  if v_worker.is_off then
    return;
  elsif v_worker.only_queues is not null then  -- restricted by its API key, regardless of what it asks for
    p_queues := array(select q.name from unnest(p_queues) as q (name) where q.name = any (v_worker.only_queues));
  end if;
  if p_least > 0 then  -- one claim at a time: concurrent ones would share a batch's jobs
    perform pg_advisory_xact_lock(7710, hashtext(p_kinds[1]));
  end if;
  perform pg_advisory_xact_lock_shared(7707, 0);  -- creating a limit counts running jobs, which must not change meanwhile
  if exists (select from posthouse.limits) then
    v_held := posthouse.hold_slots(p_queues, p_kinds, p_lanes, p_marks, v_now);
  end if;
  select array_agg(k.lane), array_agg(k.priority), array_agg(k.turn), array_agg(k.tenant_id), array_agg(k.mark)
  into v_busy.lanes, v_busy.priorities, v_busy.turns, v_busy.tenants, v_busy.marks
  from (
    select distinct on (d.lane) d.lane, d.priority, d.turn, d.tenant_id, coalesce(m.mark, 0) as mark
    from posthouse.lanes as d
    left join unnest(p_lanes, p_marks) as m (lane, mark) on m.lane = d.lane
    where d.queue = any (p_queues) and d.kind = any (p_kinds)
      and (v_worker.only_tenant is null or d.tenant_id = v_worker.only_tenant)
      and d.queue <> all (array(select q.name from posthouse.queues as q where q.paused_at is not null))
      and (d.requires is null or d.requires <@ p_offers or posthouse.meets(d.requires, p_offers, v_worker.code))
      and (d.prefers is null or d.prefers <@ p_offers
           or not posthouse.left_to_others(d.lane, d.queue, d.kind, d.prefers, v_now, p_patience))
      and (v_held.seen is null or d.lane = any (v_held.seen))
  ) as k
  -- Not exists (...): that could become a join with all of ready.
  where (select true from posthouse.ready as r where r.lane = k.lane and r.position > k.mark limit 1);
  if v_busy.lanes is null then
    return;
  elsif cardinality(v_busy.lanes) = 1 and v_busy.turns[1] > 0 and v_held.slots is null and p_least = 0 then
    v_chosen := array_fill(v_busy.lanes[1], array[p_limit]);
  else
    v_chosen := posthouse.fair_share(v_busy, v_held, p_limit, p_careful, p_tenants, p_served);
    if cardinality(v_chosen) < p_least then  -- unless a few long lanes have the rest
      v_chosen := posthouse.fair_share(v_busy, v_held, p_limit, p_careful, p_tenants, p_served, p_depth => p_limit);
    end if;
    if cardinality(v_chosen) < p_least then
      return;
    end if;
  end if;
  return query
  with share as materialized (
    select c.lane, count(*) as n, min(b.mark) as mark
    from unnest(v_chosen) as c (lane) join unnest(v_busy.lanes, v_busy.marks) as b (lane, mark) on b.lane = c.lane
    group by c.lane
  ), gone as (
    delete from posthouse.ready where ctid = any (array(
      select r.ctid from share cross join lateral (
        select ctid from posthouse.ready as r
        where r.lane = share.lane and r.position > share.mark
        order by r.position limit share.n for update skip locked) as r))
    returning
      @job
        started_at := coalesce(started_at, greatest(v_now, scheduled_for))
        attempt_count := attempt_count + 1
      @, lane, position
  )
  insert into posthouse.running (@job@, @attempt -cancel_requested_at -progress_at@)
  select @job gone@, gone.lane, gone.position, p_token, p_worker, greatest(v_now, gone.scheduled_for), v_now + p_lease,
    (v_held.by_lane ->> gone.lane::text)::text[]
  from gone
  returning *;
  if v_held.slots is not null then
    get diagnostics v_started = row_count;
    if v_started < cardinality(v_chosen) then  -- another transaction canceled or locked some
      v_chosen := array(select r.lane from posthouse.running as r where r.token = p_token);
    end if;
    perform posthouse.take_slots(v_chosen, v_held);
  end if;
end $$;

-- How many rows each busy lane gives: lanes in the order of the rows to take, one entry a row. Planned under the
-- settings of the claim that calls it.
create or replace function posthouse.fair_share(
  p_busy posthouse.busy_lanes, p_held posthouse.held_slots, p_limit integer, p_careful boolean,
  p_tenants text[], p_served double precision[], p_depth integer default null
) returns bigint[]
language plpgsql
as $$
declare
  v_chosen bigint[];
begin
  with busy as materialized (
    select k.*, coalesce(t.weight, 1) as weight, coalesce(h.fits, p_limit) as fits
    from unnest(p_busy.lanes, p_busy.priorities, p_busy.turns, p_busy.tenants, p_busy.marks)
      as k (lane, priority, turn, tenant_id, mark)
    left join posthouse.tenants as t on t.id = k.tenant_id
    left join unnest(p_held.limited, p_held.fits) as h (lane, fits) on h.lane = k.lane
  ), peek as (
    select b.*, r.position,
           row_number() over (partition by b.priority, b.tenant_id order by b.turn, r.position) as nth
    from busy as b cross join lateral (
      select position from posthouse.ready as r
      where r.lane = b.lane and r.position > b.mark
      -- Deep enough to fill the claim from any half of the lanes: reading all of each would cost lanes x limit.
      order by r.position limit case
        when b.turn > 0 then least(b.fits, coalesce(p_depth, 1 + 2 * p_limit / cardinality(p_busy.lanes)))
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
  return case when p_held.slots is null then v_chosen else posthouse.within_slots(v_chosen, p_held) end;
end $$;

-- For each batch kind that has ready jobs in these queues: how many, at most p_sizes, and the newest position, which
-- tells whether more arrive. An estimate: capabilities, limits and suspects are left to the claim.
create or replace function posthouse.ready_batches(
  p_worker uuid, p_queues text[], p_kinds text[], p_sizes integer[],
  p_lanes bigint[] default '{}', p_marks bigint[] default '{}'
) returns table (kind text, jobs bigint, newest bigint)
language plpgsql stable
set enable_bitmapscan = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
  select b.kind, least(min(b.size), sum(r.jobs))::bigint, max(r.newest)
  from unnest(p_kinds, p_sizes) as b (kind, size)
  join posthouse.lanes as d on d.kind = b.kind
  left join posthouse.workers as w on w.id = p_worker
  left join unnest(p_lanes, p_marks) as m (lane, mark) on m.lane = d.lane
  cross join lateral (
    select count(*) as jobs,
           (select r.position from posthouse.ready as r where r.lane = d.lane order by r.position desc limit 1) as newest
    from (
      select from posthouse.ready as r
      where r.lane = d.lane and r.position > coalesce(m.mark, 0)
      order by r.position limit b.size) as head) as r
  where d.queue = any (p_queues)
    and (w.only_queues is null or d.queue = any (w.only_queues))
    and (w.only_tenant is null or d.tenant_id = w.only_tenant)
    and d.queue <> all (array(select q.name from posthouse.queues as q where q.paused_at is not null))
    and r.jobs > 0
  group by b.kind;
end $$;

-- What a claim with this token took, for a worker that did not hear the answer.
create or replace function posthouse.claimed(p_token uuid) returns setof posthouse.running
language sql stable as $$ select * from posthouse.running where token = p_token $$;

-- Whether a worker that lacks what a lane prefers should leave it to one that has it: if such a one was seen lately
-- and has a free place, and the lane's first job has not waited for longer than p_patience.
create or replace function posthouse.left_to_others(
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
