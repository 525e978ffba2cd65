-- What the urgent steps of the keeper have to do; p_swept of sweep_blocks says which edges are settled.
select
  t.at as now, w.workers, w.changed as workers_changed,
  exists (select from posthouse.running) as has_leases,
  (select extract(epoch from min(j.due_at) - t.at)::double precision
   from posthouse.waiting as j where j.blockers = 0) as due_in,
  exists (select from posthouse.blocks as b where b.xid >= (%(swept)s::xid8[])[1]) as has_edges,
  exists (select from posthouse.unmatched) as has_events,
  case
    when exists (select from posthouse.triggers as s where s.type = 'schedule' and s.enabled and s.next_at is null) then 0
    else (select extract(epoch from min(s.next_at) - t.at)::double precision
          from posthouse.triggers as s where s.type = 'schedule' and s.enabled)
  end as schedule_in
from (select posthouse.now() as at) as t
cross join lateral (
  select count(*)::integer as workers, coalesce(bool_or(
    v.lost_at is not null or v.missing_since is not null
    or coalesce(v.heartbeat_at, v.started_at)
      < t.at - coalesce(make_interval(secs => %(silence)s::double precision), v.offline_after)
    -- its liveness lock is free; in this order, and released at once: other keepers test it too
    or case when v.watched and pg_try_advisory_lock(7701, v.number)
            then pg_advisory_unlock(7701, v.number) else false end), false) as changed
  from posthouse.workers as v where v.stopped_at is null) as w
