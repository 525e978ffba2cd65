-- Limits, queues and tenants: the rules that a claim must respect.
--
-- A *limit* is a rule: which jobs it counts (kinds, queues, tenants; null = all), in which groups (all together, per
-- tenant, per key), and how many may run at a time, start in a time, or both. A *slot* is the count of one limit for
-- one tenant or key. A claim locks the slots of the lanes that it reads, in order, and counts the jobs that it takes;
-- every function that ends a lease subtracts them in the same transaction. So the counts are exact at every moment, and
-- a crash leaks none.
--
-- Functions that end a lease lock slots last; a claim locks them first and then waits for no other lock: no deadlock.

-- The slot in which a limit counts a job; null if it does not.
create or replace function posthouse.slot_of(
  l posthouse.limits, p_queue text, p_kind text, p_tenant text, p_limit_key text
) returns text
language sql immutable as $$
  select case
    when p_kind = any (coalesce(l.kinds, array[p_kind])) and p_queue = any (coalesce(l.queues, array[p_queue]))
         and p_tenant = any (coalesce(l.tenants, array[p_tenant]))
    then case l.per
      when 'all' then l.name
      when 'tenant' then concat_ws(E'\x1f', l.name, p_tenant)
      else l.name || E'\x1f' || p_tenant || E'\x1f' || p_limit_key end  -- null if the job has no key
    end
$$;

create or replace function posthouse.start_cost(l posthouse.limits, p_kind text) returns double precision
language sql immutable as $$ select coalesce((l.weights ->> p_kind)::double precision, 1) $$;

-- The tokens of a slot now, with those that have been added since the last count.
create or replace function posthouse.refilled(l posthouse.limits, s posthouse.limit_slots, p_now timestamptz)
returns double precision
language sql immutable as $$
  select least(l.burst, coalesce(s.tokens, l.burst)
    + greatest(0, extract(epoch from p_now - coalesce(s.refilled_at, p_now))) * l.rate)
$$;

-- Locks the slots of these lanes. Missing slots are created; a slot that is deleted concurrently counts as full until
-- the next claim creates it again.
create or replace function posthouse.lock_slots(p_lanes bigint[], p_now timestamptz) returns posthouse.slot_budget
language plpgsql as $$
declare
  v_limits text[];
  v_held posthouse.slot_budget;
begin
  select array_agg(w.lane), array_agg(w.slot), array_agg(w.name), array_agg(w.cost)
  into v_held.lanes, v_held.slots, v_limits, v_held.costs
  from (
    select distinct on (d.lane, l.name) d.lane, l.name,
           posthouse.slot_of(l, d.queue, d.kind, d.tenant_id, d.limit_key) as slot,
           posthouse.start_cost(l, d.kind) as cost
    from posthouse.lanes as d cross join posthouse.limits as l where d.lane = any (p_lanes)) as w
  where w.slot is not null;
  if v_held.lanes is null then
    return v_held;
  end if;
  insert into posthouse.limit_slots (slot, limit_name)
  select distinct on (u.slot) u.slot, u.name from unnest(v_held.slots, v_limits) as u (slot, name)
  where not exists (select from posthouse.limit_slots as s where s.slot = u.slot)
  order by u.slot
  on conflict do nothing;
  perform from posthouse.limit_slots as s where s.slot = any (v_held.slots) order by s.slot for update;
  update posthouse.limit_slots as s set tokens = posthouse.refilled(l, s, p_now), refilled_at = p_now
  from posthouse.limits as l where s.slot = any (v_held.slots) and l.name = s.limit_name and l.rate is not null;
  select array_agg(h.free), array_agg(h.tokens) into v_held.free, v_held.tokens
  from (
    select coalesce(s.tokens, 'infinity') as tokens,
           case when s.slot is null then 0 else coalesce(l.max_running - s.in_use, 2147483647) end as free
    from unnest(v_held.slots) with ordinality as u (slot, ordinal)
    left join posthouse.limit_slots as s on s.slot = u.slot
    left join posthouse.limits as l on l.name = s.limit_name
    order by u.ordinal) as h;
  select array_agg(h.lane), array_agg(h.fits), array_agg(h.joined) into v_held.limited, v_held.fits, v_held.joined
  from (
    select u.lane, string_agg(u.slot, E'\x1e') as joined,
           greatest(0, floor(min(least(u.free, u.tokens / nullif(u.cost, 0), 2147483647))))::integer as fits
    from unnest(v_held.lanes, v_held.slots, v_held.costs, v_held.free, v_held.tokens)
      as u (lane, slot, cost, free, tokens)
    group by u.lane) as h;
  return v_held;
end $$;

-- The chosen rows that fit, in their order: slot by slot, the first rows of each. The first row of all always fits,
-- since no more rows of a lane were chosen than fit: a full slot does not block other lanes.
create or replace function posthouse.fit_to_slots(p_chosen bigint[], p_held posthouse.slot_budget) returns bigint[]
language plpgsql as $$
declare
  v_slots text[] := array(
    select u.slot from unnest(p_held.slots, p_held.costs, p_held.free, p_held.tokens) as u (slot, cost, free, tokens)
    group by u.slot having min(u.free) < cardinality(p_chosen) or min(u.tokens) < max(u.cost) * cardinality(p_chosen));
begin
  if v_slots = '{}' then
    return p_chosen;
  end if;
  for v_place in 1 .. cardinality(v_slots) loop
    p_chosen := array(
      select f.lane
      from (
        select c.lane, c.ordinal, h.free, h.tokens,
               row_number() over (partition by h.slot order by c.ordinal) as nth,
               sum(h.cost) over (partition by h.slot order by c.ordinal) as spent
        from unnest(p_chosen) with ordinality as c (lane, ordinal)
        left join unnest(p_held.lanes, p_held.slots, p_held.costs, p_held.free, p_held.tokens)
          as h (lane, slot, cost, free, tokens) on h.lane = c.lane and h.slot = v_slots[v_place]) as f
      where f.free is null or (f.nth <= f.free and f.spent <= f.tokens)
      order by f.ordinal);
  end loop;
  return p_chosen;
end $$;

-- Adds the jobs that a claim started in each lane to their slots.
create or replace function posthouse.acquire_slots(p_lanes bigint[], p_jobs integer[], p_held posthouse.slot_budget)
returns void
language sql as $$
  update posthouse.limit_slots as s
  set in_use = s.in_use + u.jobs, tokens = s.tokens - u.cost
  from (select h.slot, sum(h.cost * c.jobs) as cost, sum(c.jobs) as jobs
        from unnest(p_lanes, p_jobs) as c (lane, jobs)
        join unnest(p_held.lanes, p_held.slots, p_held.costs) as h (lane, slot, cost) on h.lane = c.lane
        group by h.slot) as u
  where s.slot = u.slot
$$;

-- Subtracts ended leases from their slots, and wakes the workers of queues that a full slot blocked. p_slots: the number
-- of jobs for each value of running.slots among them.
create or replace function posthouse.release_slots(p_slots jsonb) returns void
language plpgsql as $$
declare
  v_slots text[];
  v_jobs integer[];
  v_full text[];
begin
  if p_slots is null then
    return;
  end if;
  select array_agg(h.slot), array_agg(h.jobs) into v_slots, v_jobs from (
    select u.slot, sum(j.jobs::integer)::integer as jobs
    from jsonb_each_text(p_slots) as j (slots, jobs) cross join unnest(string_to_array(j.slots, E'\x1e')) as u (slot)
    group by u.slot) as h;
  v_full := array(
    select l.name from posthouse.limits as l join (
      select s.limit_name, s.in_use from posthouse.limit_slots as s
      where s.slot = any (v_slots) order by s.slot for update) as s on s.limit_name = l.name
    where s.in_use >= l.max_running);
  update posthouse.limit_slots as s set in_use = s.in_use - f.jobs
  from unnest(v_slots, v_jobs) as f (slot, jobs) where s.slot = f.slot;
  if v_full <> '{}' then
    perform posthouse.wake(array(
      select distinct d.queue from posthouse.lanes as d join posthouse.limits as l on l.name = any (v_full)
      where posthouse.slot_of(l, d.queue, d.kind, d.tenant_id, coalesce(d.limit_key, '')) is not null));
  end if;
end $$;

-- Seconds until a rate lets another job start in these queues; null if no job waits for a rate.
create or replace function posthouse.next_token(p_queues text[], p_kinds text[]) returns double precision
language sql stable as $$
  select min((posthouse.start_cost(l, d.kind) - posthouse.refilled(l, s, posthouse.now())) / l.rate)
  from posthouse.limits as l
  join posthouse.limit_slots as s on s.limit_name = l.name
  join posthouse.lanes as d on posthouse.slot_of(l, d.queue, d.kind, d.tenant_id, d.limit_key) = s.slot
  where l.rate is not null and d.queue = any (p_queues) and d.kind = any (p_kinds)
    and posthouse.refilled(l, s, posthouse.now()) < posthouse.start_cost(l, d.kind)
    and exists (select from posthouse.ready as r where r.lane = d.lane)
$$;

-- Creates or changes a limit. Running jobs count at once, also those that started before the limit existed. Under a
-- lower maximum, running jobs continue; no job starts until there is room.
create or replace function posthouse.set_limit(
  p_name text, p_fields jsonb, p_actor text default null, p_origin text default 'operator'
) returns posthouse.limits
language plpgsql as $$
declare
  v_old posthouse.limits;
  v_new posthouse.limits;
begin
  if p_name ~ E'[\x01-\x1f]' or p_name = '' or length(p_name) > 200 then
    raise exception 'limit %: the name must have 1 to 200 characters', quote_literal(p_name) using errcode = 'PH012';
  end if;
  perform pg_advisory_xact_lock(7707, 0);  -- waits for claims to end, and blocks new ones
  select * into v_old from posthouse.limits where name = p_name for update;
  v_new := jsonb_populate_record(v_old, p_fields);
  v_new.name := p_name;
  v_new.per := coalesce(v_new.per, 'all');
  v_new.weights := coalesce(v_new.weights, '{}');
  v_new.origin := p_origin;
  v_new.updated_at := posthouse.now();
  v_new.burst := case when v_new.rate is not null then coalesce(v_new.burst, greatest(1, v_new.rate)) end;
  if exists (select from jsonb_each_text(v_new.weights) as w
             where w.value::double precision not between 0 and v_new.burst) then
    raise exception 'limit %: weights must be between 0 and the burst; with a larger weight the job could never start', quote_literal(p_name)
      using errcode = 'PH012';
  end if;
  delete from posthouse.limits where name = p_name;
  insert into posthouse.limits select v_new.*;
  perform posthouse.recount(p_name);
  if (v_old.name is null or to_jsonb(v_old) - 'updated_at' <> to_jsonb(v_new) - 'updated_at') and p_actor is distinct from 'code' then
    perform posthouse.write_audit(p_actor, 'limit.set', null, p_name,
      case when v_old.name is not null then to_jsonb(v_old) end, to_jsonb(v_new));
  end if;
  perform posthouse.wake(array(select distinct d.queue from posthouse.lanes as d));
  return v_new;
exception
  when check_violation or not_null_violation or invalid_text_representation or numeric_value_out_of_range then
    raise exception 'limit %: %', quote_literal(p_name), sqlerrm using errcode = 'PH012';
end $$;

-- Recounts a limit: marks the running jobs that it counts, and sets its slots to their number. The caller must block
-- claims.
create or replace function posthouse.recount(p_name text) returns void
language plpgsql as $$
begin
  update posthouse.running as r
  set slots = (
    select string_agg(u.slot, E'\x1e') from (
      select u.slot from unnest(string_to_array(r.slots, E'\x1e')) as u (slot)
      where split_part(u.slot, E'\x1f', 1) <> p_name
      union all
      select posthouse.slot_of(l, r.queue, r.kind, r.tenant_id, r.limit_key) from posthouse.limits as l
      where l.name = p_name) as u)
  from (select id from posthouse.running order by id for update) as held
  where r.id = held.id;
  perform from posthouse.limit_slots where limit_name = p_name order by slot for update;
  delete from posthouse.limit_slots as s where s.limit_name = p_name
    and not exists (select from posthouse.limits as l where l.name = p_name and l.rate is not null);
  update posthouse.limit_slots as s set in_use = 0 where s.limit_name = p_name;
  insert into posthouse.limit_slots as s (slot, limit_name, in_use)
  select u.slot, p_name, count(*) from posthouse.running as r cross join unnest(string_to_array(r.slots, E'\x1e')) as u (slot)
  where split_part(u.slot, E'\x1f', 1) = p_name group by u.slot
  on conflict (slot) do update set in_use = excluded.in_use;
end $$;

-- Whether the fields of an announced limit apply to some of p_kinds and to nothing else.
create or replace function posthouse.is_limit_of(p_fields jsonb, p_kinds text[]) returns boolean
language sql immutable as $$
  select jsonb_typeof(p_fields -> 'kinds') = 'array' and p_fields -> 'kinds' <> '[]'
         and p_fields -> 'kinds' <@ to_jsonb(p_kinds) and not p_fields ?| '{queues,tenants,origin,updated_at}'
$$;

-- Stores the limits of announced kinds. A limit that an operator set stays as it is. An announced limit applies to
-- kinds of p_kinds and to nothing else: not to queues, tenants or all jobs.
create or replace function posthouse.announce_limits(p_limits jsonb, p_kinds text[], p_actor text default 'code') returns void
language plpgsql as $$
declare
  v_limit record;
  v_old posthouse.limits;
  v_new jsonb;
begin
  for v_limit in
    select n ->> 'name' as name, n - 'name' as fields from jsonb_array_elements(p_limits) as n order by 1
  loop
    if not posthouse.is_limit_of(v_limit.fields, p_kinds) then
      raise exception 'limit %: an announced limit must name kinds of this announcement, and no queues or tenants',
        quote_nullable(v_limit.name) using errcode = 'PH012';
    end if;
    select * into v_old from posthouse.limits as l where l.name = v_limit.name;
    if v_old.origin = 'operator' then
      continue;
    end if;
    v_new := v_limit.fields;
    if v_old.name is not null then  -- a limit that several kinds share lists all of them
      v_new := v_new || jsonb_build_object('kinds', to_jsonb(array(
        select k from unnest(v_old.kinds) as k
        union select k from jsonb_array_elements_text(v_new -> 'kinds') as k order by 1)),
        'weights', v_old.weights || coalesce(v_new -> 'weights', '{}'));
    end if;
    if v_old.name is null or not to_jsonb(v_old) @> v_new then
      perform posthouse.set_limit(v_limit.name, v_new, p_actor, 'code');
    end if;
  end loop;
end $$;

-- Stores the definitions of kinds that have none yet, with their limits: a client announces these when it enqueues by
-- the handler. A definition that exists stays as it is, as the client may have older code than the workers. p_code: a
-- JSON array of objects with "definition" and "limits".
create or replace function posthouse.announce_missing(p_code jsonb) returns void
language plpgsql as $$
declare
  v_code record;
begin
  for v_code in
    select c -> 'definition' as definition, c -> 'limits' as limits from jsonb_array_elements(p_code) as c
    where not exists (select from posthouse.definitions as d where d.key = c -> 'definition' ->> 'key')
    order by c -> 'definition' ->> 'key'
  loop
    perform posthouse.announce(jsonb_build_array(v_code.definition));
    perform posthouse.announce_limits(v_code.limits, array[v_code.definition ->> 'key']);
  end loop;
end $$;

-- Removes a limit. Returns false if there is none.
create or replace function posthouse.remove_limit(p_name text, p_actor text default null) returns boolean
language plpgsql as $$
declare
  v_old posthouse.limits;
begin
  perform pg_advisory_xact_lock(7707, 0);
  delete from posthouse.limits where name = p_name returning * into v_old;
  if not found then
    return false;
  end if;
  perform posthouse.recount(p_name);
  perform posthouse.write_audit(p_actor, 'limit.remove', null, p_name, to_jsonb(v_old), null);
  perform posthouse.wake(array(select distinct d.queue from posthouse.lanes as d));
  return true;
end $$;

-- Deletes slots that count no jobs and, for rates, are full of tokens. They are created again when needed.
create or replace function posthouse.delete_unused_slots() returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  delete from posthouse.limit_slots where slot = any (array(
    select s.slot from posthouse.limit_slots as s left join posthouse.limits as l on l.name = s.limit_name
    where s.in_use = 0 and (l.rate is null or posthouse.refilled(l, s, posthouse.now()) >= l.burst)
    for update of s skip locked));
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

-- Public. Pauses a queue: no job of it starts, running ones continue. Returns false if it is paused already.
create or replace function posthouse.pause_queue(p_name text, p_actor text default null) returns boolean
language plpgsql as $$
begin
  insert into posthouse.queues as q (name, paused_at, paused_by) values (p_name, posthouse.now(), posthouse.actor(p_actor))
  on conflict (name) do update set paused_at = excluded.paused_at, paused_by = excluded.paused_by
    where q.paused_at is null;
  if not found then
    return false;
  end if;
  perform posthouse.write_audit(p_actor, 'queue.pause', null, p_name, '{"paused": false}', '{"paused": true}');
  return true;
end $$;

-- Public. Resumes a queue. Returns false if it is not paused.
create or replace function posthouse.resume_queue(p_name text, p_actor text default null) returns boolean
language plpgsql as $$
declare
  v_old posthouse.queues;
begin
  select * into v_old from posthouse.queues where name = p_name and paused_at is not null for update;
  if not found then
    return false;
  end if;
  update posthouse.queues set paused_at = null, paused_by = null where name = p_name;
  perform posthouse.write_audit(
    p_actor, 'queue.resume', null, p_name,
    jsonb_build_object('paused', true, 'paused_at', v_old.paused_at, 'paused_by', v_old.paused_by),
    '{"paused": false}');
  perform posthouse.wake(array[p_name]);
  return true;
end $$;

-- Locks a tenant's row until the transaction ends; returns false if the tenant was not created. The tenant 'default',
-- to which jobs without a tenant belong, is created if missing.
create or replace function posthouse.lock_tenant(p_tenant text) returns boolean
language plpgsql as $$
begin
  if p_tenant = 'default' then
    insert into posthouse.tenants (id) values (p_tenant) on conflict do nothing;
  end if;
  perform from posthouse.tenants where id = p_tenant for update;
  return found;
end $$;
