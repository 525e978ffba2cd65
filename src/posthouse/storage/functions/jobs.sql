-- Posthouse: the engine.
--
-- A job is one row. The table that holds the row is the state of the job:
--
--   enqueue ──▶ ready ──claim──▶ running ──finish──▶ history
--      │          ▲                 │
--      └──▶ waiting ◀───────────────┘  retry, snooze (release and rescue return the row to ready)
--
--   ready     can start now. A claim deletes the row and inserts it into running.
--   waiting   cannot start yet: due later, or blocked by other jobs.
--   running   leased to a worker. The token in the row is the lease: every write must present it.
--   history   ended. Append-only, partitioned by the time of the end; retention drops whole partitions.
--
-- Rows move between tables instead of changing a status column, so that each table stays small and no index holds
-- jobs that are never searched for. Measured against one table with a status (Postgres 15, backend CPU per job):
-- claim 20 -> 12 us, finish 17 -> 11 us, and flat while an old transaction pins the MVCC horizon.
--
-- A *lane* is a FIFO inside ready: the jobs of one queue, kind, tenant, priority and rank with the same limit key,
-- requirements and preferences. A claim reads the head of each lane that its worker can serve, so jobs that the
-- worker cannot run cost nothing. `position` comes from a sequence when the row becomes ready. A worker remembers
-- the last position that it took from each lane and starts behind it, which keeps a claim from reading dead index
-- entries while the horizon is pinned.
--
-- The rank orders the lanes of one priority: 0 = suspects (two workers died while running the job: served first, one
-- at a time per worker, so that a poison job is identified without blaming others), 1 = released by a stopping worker
-- or rescued from a dead one, 2 = all other jobs.
--
-- Lock order for transactions that lock several rows: running -> ready and waiting, those of one statement by id ->
-- dedupe_keys -> order_tails -> job_dependencies -> limit_slots by name. Claim, promote, heartbeat and rescue always use
-- SKIP LOCKED. A dedupe key held by another job is read without a lock, so workers never wait for an enqueuing
-- transaction.
--
-- posthouse.now() is the only clock of the engine; tests replace it.

-- The tenant that this transaction speaks for; null for none.
create or replace function posthouse.tenant() returns text
language sql stable parallel safe as $$
  select nullif(current_setting('posthouse.tenant', true), '')
$$;

create or replace function posthouse.is_legal(p_event text, p_from text, p_to text) returns boolean
language sql stable as $$
  select exists (
    select from posthouse.transitions
    where event = p_event and from_status = p_from and to_status = p_to)
$$;

-- Public. Returns the number of a priority: urgent, high, normal or low.
create or replace function posthouse.priority(p_name text) returns integer
language sql immutable strict as $$
  select case lower(p_name)
    when 'urgent' then 10 when 'high' then 50 when 'normal' then 100 when 'low' then 200 end
$$;

-- A lane's number is a hash of its properties, so that clients can compute it too (posthouse.core.lanes). Properties
-- that a lane does not have are left out of the text. Stable, as array_to_string is, or it would not be inlined.
create or replace function posthouse.lane_number(
  p_queue text, p_kind text, p_tenant text, p_priority integer, p_rank integer, p_limit_key text default null,
  p_requires text[] default null, p_prefers text[] default null
) returns bigint
language sql stable parallel safe as $$
  select ('x' || encode(substring(sha256(convert_to(
    concat_ws(E'\x1f', p_queue, p_kind, p_tenant, p_priority, p_rank, 'key ' || p_limit_key,
              'requires ' || array_to_string(p_requires, ','), 'prefers ' || array_to_string(p_prefers, ',')),
    'UTF8')) for 8), 'hex')
  )::bit(64)::bigint
$$;

-- Makes lanes known to claims. Called by every function that inserts into ready. In PL/pgSQL because its plans are
-- cached: an SQL function was planned again on every call, which cost a single enqueue 0.2 ms.
create or replace function posthouse.open_lanes(p_lanes posthouse.lane[]) returns void
language plpgsql as $$
begin
  insert into posthouse.lanes (lane, queue, kind, tenant_id, priority, rank, limit_key, requires, prefers)
  select n.lane, n.queue, n.kind, n.tenant_id, n.priority, n.rank, n.limit_key, n.requires, n.prefers
  from unnest(p_lanes) as n
  where not exists (select from posthouse.lanes as l where l.lane = n.lane);
end $$;

-- The directory of lanes is kept small, because every claim reads each lane of its queues.

-- Deletes empty lanes if there are more than p_keep. A concurrent transaction that enqueues into such a lane still saw
-- it, and does not create it again: restore_missing_lanes finds those lanes.
create or replace function posthouse.delete_empty_lanes(p_keep integer default 1000) returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  if (select count(*) from posthouse.lanes) <= p_keep then
    return 0;
  end if;
  delete from posthouse.lanes as l
  where not exists (select from posthouse.ready as r where r.lane = l.lane);
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

-- Re-inserts lanes that have ready jobs but were deleted concurrently; returns how many. Steps from lane to lane
-- through the index, and asks for the first job of a lane in order: without an order, the planner reads the table, and
-- reads all of it if there is no such lane.
create or replace function posthouse.restore_missing_lanes() returns integer
language plpgsql as $$
declare
  v_lanes posthouse.lane[];
begin
  with recursive step as (
    (select lane from posthouse.ready order by lane limit 1)
    union all
    select (select r.lane from posthouse.ready as r where r.lane > s.lane order by r.lane limit 1)
    from step as s where s.lane is not null
  )
  select array_agg((s.lane, r.queue, r.kind, r.tenant_id, r.priority, t.rank, r.limit_key, r.requires, r.prefers)
                   ::posthouse.lane)
  into v_lanes
  from step as s
  cross join lateral (
    select * from posthouse.ready as r where r.lane = s.lane order by r.lane, r.position limit 1) as r
  join generate_series(0, 2) as t (rank) on s.lane = posthouse.lane_number(
    r.queue, r.kind, r.tenant_id, r.priority, t.rank, r.limit_key, r.requires, r.prefers)
  where not exists (select from posthouse.lanes as l where l.lane = s.lane);
  if v_lanes is null then
    return 0;
  end if;
  perform posthouse.open_lanes(v_lanes);
  perform posthouse.wake(array(select distinct l.queue from unnest(v_lanes) as l));
  return cardinality(v_lanes);
end $$;

-- The status of a job, from the table that holds it; null if there is no such job. The tables are read in the order in
-- which jobs move through them, so that a job that moves in between is not missed.
create or replace function posthouse.status_of(p_id uuid) returns text
language plpgsql stable as $$
declare
  v_status text;
begin
  perform from posthouse.waiting where id = p_id;
  if found then return 'queued'; end if;
  perform from posthouse.ready where id = p_id;
  if found then return 'queued'; end if;
  perform from posthouse.running where id = p_id;
  if found then return 'running'; end if;
  select status into v_status from posthouse.history where id = p_id order by finished_at desc limit 1;
  return v_status;
end $$;

-- In how many tables a job is: one or none; two while it is being stored a second time.
create or replace function posthouse.count_tables_with(p_id uuid) returns bigint
language sql stable as $$
  select count(*) from (
    select from posthouse.waiting where id = p_id union all
    select from posthouse.ready where id = p_id union all
    select from posthouse.running where id = p_id union all
    select from posthouse.history where id = p_id) as tables
$$;

-- Whether a worker waits for work in this queue: one that requested a wakeup holds its shared lock.
create or replace function posthouse.has_waiting_worker(p_queue text) returns boolean
language plpgsql as $$
begin
  return case when pg_try_advisory_lock(7702, hashtext(p_queue))
    then not pg_advisory_unlock(7702, hashtext(p_queue)) else true end;
end $$;

-- Wakes the workers that wait for work in these queues. NOTIFY takes a lock on the whole database at commit, so it is
-- only sent to queues with a waiting worker.
create or replace function posthouse.wake(p_queues text[]) returns void
language plpgsql as $$
declare
  v_queue text;
begin
  foreach v_queue in array p_queues loop
    if posthouse.has_waiting_worker(v_queue) then
      perform pg_notify('posthouse_ready', v_queue);
    end if;
  end loop;
end $$;

-- Notifies the sessions that wait for results, if there are any, of the jobs that ended.
create or replace function posthouse.notify_finished(p_ids uuid[]) returns void
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

-- Public. All jobs, one row each, from the tables ready, waiting, running and history, with a status.
create or replace view posthouse.jobs with (security_invoker = true) as
select
  @view
    status := 'queued'
    job_table := 'ready'
    payload := coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id))
    attempt_started_at := null::timestamptz
    finished_at := null::timestamptz
    lease_expires_at := null::timestamptz
    worker_id := null::uuid
    cancel_requested_at := null::timestamptz
    result := null::jsonb
    error := null::jsonb
    blockers := 0
    erased_at := null::timestamptz
  @
from posthouse.ready
union all
select
  @view
    status := 'queued'
    job_table := 'waiting'
    payload := coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id))
    attempt_started_at := null
    finished_at := null
    lease_expires_at := null
    worker_id := null
    cancel_requested_at := null
    result := null
    error := null
    erased_at := null
  @
from posthouse.waiting
union all
select
  @view
    status := 'running'
    job_table := 'running'
    payload := coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id))
    finished_at := null
    result := null
    error := null
    blockers := 0
    erased_at := null
  @
from posthouse.running
union all
select
  @view
    job_table := 'history'
    payload := coalesce(payload, (select body from posthouse.payloads as p where p.job_id = id))
    lease_expires_at := null
    blockers := 0
  @
from posthouse.history;

-- Public. All attempts, one row each: those that did not end their job, the last ones of ended jobs, and running ones.
create or replace view posthouse.attempts with (security_invoker = true) as
select
  job_id, tenant_id, kind, generation, attempt, worker_id, started_at, finished_at, outcome,
  coalesce(output ->> 'exit_code', error ->> 'exit_code')::integer as exit_code,
  coalesce(output ->> 'signal', error ->> 'signal') as signal,
  coalesce(output ->> 'pid', error ->> 'pid')::integer as pid,
  error ->> 'type' as error_type, error ->> 'message' as error_message, error ->> 'traceback' as traceback,
  output ->> 'stdout' as stdout_tail, output ->> 'stderr' as stderr_tail
from posthouse.past_attempts
union all
select
  id, tenant_id, kind, generation, attempt_count, worker_id, attempt_started_at, finished_at, outcome,
  coalesce(output ->> 'exit_code', error ->> 'exit_code')::integer,
  coalesce(output ->> 'signal', error ->> 'signal'),
  coalesce(output ->> 'pid', error ->> 'pid')::integer,
  error ->> 'type', error ->> 'message', error ->> 'traceback',
  output ->> 'stdout', output ->> 'stderr'
from posthouse.history where attempt_started_at is not null
union all
select
  id, tenant_id, kind, generation, attempt_count, worker_id, attempt_started_at, null, 'running',
  null, null, null, null, null, null, null, null
from posthouse.running;
