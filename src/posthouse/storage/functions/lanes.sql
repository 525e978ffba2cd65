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
  select array_agg((s.lane, r.queue, r.kind, r.tenant_id, r.priority, t.turn, r.limit_key, r.requires, r.prefers)
                   ::posthouse.lane)
  into v_lanes
  from step as s
  cross join lateral (
    select * from posthouse.ready as r where r.lane = s.lane order by r.lane, r.position limit 1) as r
  join generate_series(0, 2) as t (turn) on s.lane = posthouse.lane_number(
    r.queue, r.kind, r.tenant_id, r.priority, t.turn, r.limit_key, r.requires, r.prefers)
  where not exists (select from posthouse.lanes as l where l.lane = s.lane);
  if v_lanes is null then
    return 0;
  end if;
  perform posthouse.open_lanes(v_lanes);
  perform posthouse.wake(array(select distinct l.queue from unnest(v_lanes) as l));
  return cardinality(v_lanes);
end $$;
