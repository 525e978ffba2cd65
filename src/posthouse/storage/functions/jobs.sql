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
-- A *lane* is a FIFO inside ready: the jobs of one queue, kind, tenant, priority and turn with the same limit key,
-- requirements and preferences. A claim reads the head of each lane that its worker can serve, so jobs that the
-- worker cannot run cost nothing. `position` comes from a sequence when the row becomes ready. A worker remembers
-- the last position that it took from each lane and starts behind it, which keeps a claim from reading dead index
-- entries while the horizon is pinned.
--
-- The turn orders the lanes of one priority: 0 = suspects (two workers died while running the job: served first, one
-- at a time per worker, so that a poison job is identified without blaming others), 1 = released by a stopping worker
-- or rescued from a dead one, 2 = all other jobs.
--
-- Lock order for transactions that lock several rows: running -> ready and waiting, those of one statement by id ->
-- dedupes -> order_tails -> blocks -> limit_slots by name. Claim, promote, heartbeat and rescue always use
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
  p_queue text, p_kind text, p_tenant text, p_priority integer, p_turn integer, p_limit_key text default null,
  p_requires text[] default null, p_prefers text[] default null
) returns bigint
language sql stable parallel safe as $$
  select ('x' || encode(substring(sha256(convert_to(
    concat_ws(E'\x1f', p_queue, p_kind, p_tenant, p_priority, p_turn, 'key ' || p_limit_key,
              'requires ' || array_to_string(p_requires, ','), 'prefers ' || array_to_string(p_prefers, ',')),
    'UTF8')) for 8), 'hex')
  )::bit(64)::bigint
$$;

-- Makes lanes known to claims. Called by every function that inserts into ready. In PL/pgSQL because its plans are
-- cached: an SQL function was planned again on every call, which cost a single enqueue 0.2 ms.
create or replace function posthouse.open_lanes(p_lanes posthouse.lane[]) returns void
language plpgsql as $$
begin
  insert into posthouse.lanes (lane, queue, kind, tenant_id, priority, turn, limit_key, requires, prefers)
  select n.lane, n.queue, n.kind, n.tenant_id, n.priority, n.turn, n.limit_key, n.requires, n.prefers
  from unnest(p_lanes) as n
  where not exists (select from posthouse.lanes as l where l.lane = n.lane);
end $$;
