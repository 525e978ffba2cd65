-- Claim: the heads of the lanes that a worker can serve, in order of priority, turn and age.

-- p_token is made by the worker, new for each claim: repeating a claim whose reply was lost returns what
-- the first one took. p_lanes and p_marks say behind which position each known lane is to be read; a worker
-- passes none of them to look from the start. p_careful: it may take one suspect.
--
-- The peek decides how many rows each lane gives; only then are rows locked, lane by lane. Locking all
-- candidates and sorting afterwards would hide them from every other worker for the length of the claim.
-- A row may have been committed after v_now was read: it starts no earlier than it was due all the same.
-- Rows are deleted by ctid: joining the picked rows by key made the planner scan the table.
create function posthouse.claim(
  p_worker uuid, p_token uuid, p_queues text[], p_kinds text[], p_limit integer, p_lease interval,
  p_lanes bigint[] default '{}', p_marks bigint[] default '{}', p_careful boolean default true
) returns setof posthouse.running
language plpgsql
set enable_bitmapscan = off
set enable_seqscan = off  -- a plan made while ready was empty must not scan it when it is not
set plan_cache_mode = force_generic_plan  -- the arguments never change the plan; planning took 0.2 ms
as $$
declare
  v_now timestamptz := posthouse.now();
begin
  return query
  with lane as materialized (
    select l.lane, l.priority, l.turn, coalesce(m.mark, 0) as mark
    from (select distinct on (d.lane) d.lane, d.priority, d.turn from posthouse.lanes as d
          where d.queue = any (p_queues) and d.kind = any (p_kinds)) as l
    left join unnest(p_lanes, p_marks) as m (lane, mark) on m.lane = l.lane
  ), peek as (
    select lane.*, r.position,
           row_number() over (partition by lane.turn = 0 order by lane.priority, r.position) as nth
    from lane cross join lateral (
      select position from posthouse.ready as r
      where r.lane = lane.lane and r.position > lane.mark
      order by r.position limit p_limit) as r
  ), share as materialized (
    select lane, mark, count(*) as n
    from (select peek.lane, peek.mark from peek
          where turn > 0 or (p_careful and nth = 1)
          order by priority, turn, position limit p_limit) as chosen
    group by lane, mark
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
      subject, source_ref, created_by, retry, depends_on, current_step, progress_message, last_error, lane,
      position
  )
  insert into posthouse.running as new
  select gone.*, p_token, p_worker, greatest(v_now, gone.scheduled_for), v_now + p_lease, null
  from gone
  returning new.*;
end $$;

-- What a claim with this token took, for a worker that did not hear the answer.
create function posthouse.claimed(p_token uuid) returns setof posthouse.running
language sql stable as $$ select * from posthouse.running where token = p_token $$;
