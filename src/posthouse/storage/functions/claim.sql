-- Claim: take jobs from the heads of the lanes that a worker can serve, in order of priority and rank, fair over
-- tenants, within the limits.

-- Whether a worker has the capabilities that a job requires. An entry "!code" excludes workers with this version of the
-- code, whose handler does not accept the payload (see move_settled).
create or replace function posthouse.meets(p_requires text[], p_capabilities text[], p_code text) returns boolean
language sql immutable parallel safe as $$
  select not exists (
    select from unnest(p_requires) as r (word)
    where case when r.word like '!%' then r.word = '!' || p_code else r.word <> all (p_capabilities) end)
$$;

-- What a job requires, without the entries "!code": a retry is offered to all workers again.
create or replace function posthouse.without_code_exclusions(p_requires text[]) returns text[]
language sql immutable parallel safe as $$
  select nullif(array(select r.word from unnest(p_requires) as r (word) where r.word not like '!%'), '{}')
$$;

-- Claims up to p_limit jobs. p_token is made by the worker, new for each claim: repeating a claim whose reply was lost
-- returns the jobs of the first one. p_lanes and p_lane_cursors: the position after which to read each known lane; a
-- worker passes none of them to read from the start. p_allow_suspect: the worker may take one suspect. p_tenants and
-- p_tenant_usage: how many jobs the worker has lately given to each tenant, divided by the tenant's weight.
-- p_preference_wait: see is_reserved_for_preferred. p_min_jobs: claim nothing if fewer jobs can start; for batch
-- handlers (see ready_batches).
--
-- First, lanes are chosen: in order of priority, rank, how little their tenants were served, and how long ago they were
-- claimed from, the claim reads a few jobs of each lane until it has seen enough jobs. So it reads all lanes with ready
-- jobs if there are 16 or fewer, and otherwise 16 to 32 of them, or more if they are short: the others come first in
-- later claims. With 1,000 lanes a claim of 500 jobs takes 10 to 12 us per job, with one lane 6 to 7.
--
-- Then a plan says how many rows each of these lanes gives. Only then are rows locked, lane by lane: locking all
-- candidates and sorting afterwards would hide them from all other workers for the duration of the claim. A row may
-- have been committed after v_now was read; its start time is still no earlier than its due time. Rows are deleted by
-- ctid: joining the picked rows by key made the planner scan the table.
--
-- Two common claims need no plan: from one lane (170 us instead of 250), and from so many tenants that each gives
-- exactly the jobs that were read.
create or replace function posthouse.claim(
  p_worker uuid, p_token uuid, p_queues text[], p_kinds text[], p_limit integer, p_lease interval,
  p_lanes bigint[] default '{}', p_lane_cursors bigint[] default '{}', p_allow_suspect boolean default true,
  p_capabilities text[] default '{}', p_tenants text[] default '{}', p_tenant_usage double precision[] default '{}',
  p_preference_wait interval default '20 seconds', p_min_jobs integer default 0
) returns setof posthouse.running
language plpgsql
set enable_bitmapscan = off
set enable_nestloop = off  -- except for laterals, which have no alternative: with 3,000 lanes a claim took 1 s
set jit = off  -- disabled plan nodes have a huge cost, which would trigger JIT compilation
set enable_seqscan = off  -- a plan made while ready was empty must not scan it when it is not
set plan_cache_mode = force_generic_plan  -- the arguments never change the plan; planning took 0.2 ms
as $$
declare
  v_now timestamptz := posthouse.now();
  v_held posthouse.slot_budget;
  v_busy posthouse.lane_candidates;
  v_chosen bigint[];  -- lanes in the order of the rows to take, one entry per row
  v_started bigint;
  v_worker record;
  v_least_usage double precision := coalesce((select min(u.usage) from unnest(p_tenant_usage) as u (usage)), 0);
  v_is_limited boolean;
  v_each integer := 1 + (p_limit - 1) / 32;
begin
  select w.disabled_at is not null or w.drain_requested_at is not null as is_off, w.only_tenant, w.only_queues, w.code
  into v_worker from posthouse.workers as w where w.id = p_worker;
  if v_worker.is_off then
    return;
  elsif v_worker.only_queues is not null then  -- restricted by its API key, regardless of the queues in the call
    p_queues := array(select q.name from unnest(p_queues) as q (name) where q.name = any (v_worker.only_queues));
  end if;
  if p_min_jobs > 0 then  -- one claim at a time: concurrent ones would share a batch's jobs
    perform pg_advisory_xact_lock(7710, hashtext(p_kinds[1]));
  end if;
  perform pg_advisory_xact_lock_shared(7707, 0);  -- creating a limit counts running jobs, which must not change meanwhile
  v_is_limited := exists (select from posthouse.limits);
  -- Every claim sorts all lanes. Therefore the rows are narrow, the columns to sort by come first and have a fixed width,
  -- and the arrays are unnested in select lists, which stores no copy: with 1,000 lanes 0.9 ms instead of 1.8 ms.
  with candidates as materialized (
    select distinct on (level, usage, cursor, d.lane)
           d.priority * 4::bigint + d.rank as level, coalesce(u.usage, v_least_usage - 1) as usage,
           coalesce(known.cursor, 0) as cursor, d.lane, d.priority, d.rank, d.tenant_id
    from posthouse.lanes as d
    left join (select unnest(p_lanes), unnest(p_lane_cursors)) as known (lane, cursor) on known.lane = d.lane
    left join (select unnest(p_tenants), unnest(p_tenant_usage)) as u (tenant_id, usage) on u.tenant_id = d.tenant_id
    where d.queue = any (p_queues) and d.kind = any (p_kinds) and (d.rank > 0 or p_allow_suspect)
      and (v_worker.only_tenant is null or d.tenant_id = v_worker.only_tenant)
      and d.queue <> all (array(select q.name from posthouse.queues as q where q.paused_at is not null))
      and (d.requires is null or d.requires <@ p_capabilities or posthouse.meets(d.requires, p_capabilities, v_worker.code))
      and (d.prefers is null or d.prefers <@ p_capabilities
           or not posthouse.is_reserved_for_preferred(d.lane, d.queue, d.kind, d.prefers, v_now, p_preference_wait))
    order by level, usage, cursor, d.lane
  ), looked as (
    select c.lane, c.priority, c.rank, c.tenant_id, c.cursor
    from candidates as c
    cross join lateral (
      select from posthouse.ready as r
      where r.lane = c.lane and r.position > c.cursor
      order by r.position limit case
        when c.rank > 0 then v_each
        when c.lane = (  -- one suspect at a time
          select s.lane from candidates as s
          where s.rank = 0
            and (select true from posthouse.ready as r where r.lane = s.lane and r.position > s.cursor limit 1)
          limit 1) then 1
        else 0 end) as r
    -- Lanes at their limit are left out, because they would displace others. Read without a lock, as an estimate.
    where not v_is_limited or not (
      select coalesce(bool_or(
        (select coalesce(s.in_use >= l.max_running, false)
                or coalesce(posthouse.refilled(l, s, v_now) < posthouse.start_cost(l, d.kind), false)
         from posthouse.limit_slots as s
         where s.slot = posthouse.slot_of(l, d.queue, d.kind, d.tenant_id, d.limit_key))), false)
      from posthouse.limits as l cross join posthouse.lanes as d where d.lane = c.lane)
    limit greatest(p_limit, 32)
  )
  select array_agg(k.lane), array_agg(k.priority), array_agg(k.rank), array_agg(k.tenant_id), array_agg(k.cursor),
         array_agg(k.jobs), sum(k.jobs) = p_limit and min(k.rank) > 0 and min(k.rank) = max(k.rank)
           and min(k.priority) = max(k.priority) and count(distinct k.tenant_id) in (1, count(*))
  into v_busy
  from (
    select l.lane, l.priority, l.rank, l.tenant_id, l.cursor, count(*)::integer as jobs
    from looked as l group by l.lane, l.priority, l.rank, l.tenant_id, l.cursor) as k;
  if v_busy.lanes is null then
    return;
  end if;
  if v_is_limited then
    v_held := posthouse.lock_slots(v_busy.lanes, v_now);
  end if;
  if p_min_jobs = 0 and (v_held.slots is null or (select min(f) from unnest(v_held.fits) as f) >= p_limit)
      and (v_busy.is_plan or cardinality(v_busy.lanes) = 1 and v_busy.ranks[1] > 0) then
    if cardinality(v_busy.lanes) = 1 then
      v_busy.jobs := array[p_limit];
    end if;
  else
    v_chosen := posthouse.plan_claim(v_busy, v_held, p_limit, p_tenants, p_tenant_usage);
    if coalesce(cardinality(v_chosen), 0) < p_min_jobs then
      return;
    end if;
    select array_agg(s.lane), array_agg(s.jobs), array_agg(s.cursor) into v_busy.lanes, v_busy.jobs, v_busy.lane_cursors
    from (
      select b.lane, count(*)::integer as jobs, min(b.cursor) as cursor
      from unnest(v_chosen) as c (lane)
      join unnest(v_busy.lanes, v_busy.lane_cursors) as b (lane, cursor) on b.lane = c.lane
      group by b.lane) as s;
  end if;
  return query
  with gone as (
    delete from posthouse.ready where ctid = any (array(
      select r.ctid from unnest(v_busy.lanes, v_busy.jobs, v_busy.lane_cursors) as share (lane, jobs, cursor)
      cross join lateral (
        select ctid from posthouse.ready as r
        where r.lane = share.lane and r.position > share.cursor
        order by r.position limit share.jobs for update skip locked) as r))
    returning
      @job
        started_at := coalesce(started_at, greatest(v_now, scheduled_for))
        attempt_count := attempt_count + 1
      @, lane, position
  )
  insert into posthouse.running (@job@, @attempt -cancel_requested_at@, slots)
  select @job gone@, gone.lane, gone.position, p_token, p_worker, greatest(v_now, gone.scheduled_for), v_now + p_lease,
    v_held.joined[array_position(v_held.limited, gone.lane)]
  from gone
  returning *;
  if v_held.slots is not null then
    get diagnostics v_started = row_count;
    if v_started < (select sum(j) from unnest(v_busy.jobs) as j) then  -- lanes had fewer, or others locked some
      select array_agg(r.lane), array_agg(r.jobs) into v_busy.lanes, v_busy.jobs from (
        select r.lane, count(*)::integer as jobs from posthouse.running as r where r.token = p_token group by r.lane) as r;
    end if;
    perform posthouse.acquire_slots(v_busy.lanes, v_busy.jobs, v_held);
  end if;
end $$;

-- The lanes in the order of the rows to take, one entry per row. Planned under the settings of the claim that calls it.
--
-- Each lane is read deep enough for its tenant to fill twice its part of the claim: reading every lane to the limit
-- would cost lanes x limit. If that does not fill the claim, because a few long lanes have the rest, all lanes are read
-- deeper.
create or replace function posthouse.plan_claim(
  p_busy posthouse.lane_candidates, p_held posthouse.slot_budget, p_limit integer, p_tenants text[],
  p_tenant_usage double precision[], p_deeper boolean default false
) returns bigint[]
language plpgsql
as $$
declare
  v_chosen bigint[];
  v_is_cut boolean;
  v_least_usage double precision := coalesce((select min(u.usage) from unnest(p_tenant_usage) as u (usage)), 0);
begin
  with named as (
    select b.*, dense_rank() over (partition by b.priority order by b.tenant_id) as tenant
    from unnest(p_busy.lanes, p_busy.priorities, p_busy.ranks, p_busy.tenants, p_busy.lane_cursors)
      as b (lane, priority, rank, tenant_id, cursor)
  ), busy as materialized (
    select n.lane, n.priority, n.rank, n.tenant, n.cursor, coalesce(t.weight, 1) as weight,
           coalesce(u.usage, v_least_usage) as usage, u.tenant_id is not null as has_usage,
           coalesce(h.fits, p_limit) as fits,
           case when p_deeper then p_limit
             else 1 + 2 * p_limit / (max(n.tenant) over (partition by n.priority)
                                     * count(*) over (partition by n.priority, n.tenant)) end as depth
    from named as n
    left join posthouse.tenants as t on t.id = n.tenant_id
    left join unnest(p_tenants, p_tenant_usage) as u (tenant_id, usage) on u.tenant_id = n.tenant_id
    left join unnest(p_held.limited, p_held.fits) as h (lane, fits) on h.lane = n.lane
  ), looked as (
    select b.*, r.position, r.place,
           row_number() over (partition by b.priority, b.tenant order by b.rank, r.position) as nth
    from busy as b cross join lateral (
      select r.position, row_number() over (order by r.position) as place
      from posthouse.ready as r where r.lane = b.lane and r.position > b.cursor
      order by r.position limit least(b.fits, case when b.rank > 0 then b.depth else 1 end)) as r
  )
  select array_agg(c.lane), bool_or(c.place = c.depth) and count(*) < p_limit
  into v_chosen, v_is_cut
  from (
    select l.lane, l.place, l.depth from looked as l
    -- The tenant that was served least comes first; a tenant that was not served lately starts level with the least
    -- served.
    order by l.priority, l.rank, l.usage + (l.nth - 1) / l.weight, l.has_usage, l.position
    limit p_limit) as c;
  if v_is_cut and not p_deeper then
    return posthouse.plan_claim(p_busy, p_held, p_limit, p_tenants, p_tenant_usage, true);
  end if;
  return case when p_held.slots is null then v_chosen else posthouse.fit_to_slots(v_chosen, p_held) end;
end $$;

-- For each batch kind that has ready jobs in these queues: the number of jobs, at most p_sizes, and the newest
-- position, which tells the worker whether more jobs arrive. An estimate: capabilities, limits and suspects are left to
-- the claim.
create or replace function posthouse.ready_batches(
  p_worker uuid, p_queues text[], p_kinds text[], p_sizes integer[],
  p_lanes bigint[] default '{}', p_lane_cursors bigint[] default '{}'
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
  left join unnest(p_lanes, p_lane_cursors) as known (lane, cursor) on known.lane = d.lane
  cross join lateral (
    select count(*) as jobs,
           (select r.position from posthouse.ready as r where r.lane = d.lane order by r.position desc limit 1) as newest
    from (
      select from posthouse.ready as r
      where r.lane = d.lane and r.position > coalesce(known.cursor, 0)
      order by r.position limit b.size) as head) as r
  where d.queue = any (p_queues)
    and (w.only_queues is null or d.queue = any (w.only_queues))
    and (w.only_tenant is null or d.tenant_id = w.only_tenant)
    and d.queue <> all (array(select q.name from posthouse.queues as q where q.paused_at is not null))
    and r.jobs > 0
  group by b.kind;
end $$;

-- The jobs that a claim with this token took, for a worker that did not receive the reply.
create or replace function posthouse.claimed(p_token uuid) returns setof posthouse.running
language sql stable as $$ select * from posthouse.running where token = p_token $$;

-- Whether a worker that lacks what a lane prefers should leave the lane to a worker that has it: if such a worker sent
-- a heartbeat within p_preference_wait and has free capacity, and the lane's first job has not waited for longer than
-- p_preference_wait.
create or replace function posthouse.is_reserved_for_preferred(
  p_lane bigint, p_queue text, p_kind text, p_prefers text[], p_now timestamptz, p_preference_wait interval
) returns boolean
language sql stable as $$
  select coalesce((
      select r.scheduled_for > p_now - p_preference_wait from posthouse.ready as r
      where r.lane = p_lane order by r.position limit 1), false)
    and exists (
      select from posthouse.workers as w
      where w.stopped_at is null and w.disabled_at is null and w.drain_requested_at is null
        and w.heartbeat_at > p_now - p_preference_wait
        and p_prefers <@ w.capabilities and p_queue = any (w.queues) and p_kind = any (w.kinds)
        and (select count(*) from posthouse.running as r where r.worker_id = w.id) < w.concurrency)
$$;
