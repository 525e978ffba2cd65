-- The statements of the keeper's rounds.

-- name: agenda_urgent
-- Which urgent steps of the keeper have work to do. swept: the cursor that recheck_dependencies returned.
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
    -- Its liveness lock is free. CASE fixes the order; the lock is released at once, because other keepers test it too.
    or case when v.watched and pg_try_advisory_lock(7701, v.number)
            then pg_advisory_unlock(7701, v.number) else false end), false) as changed
  from posthouse.workers as v where v.stopped_at is null) as w

-- name: agenda_patient
-- Which of the other steps of the keeper have work to do.
select
  exists (select from posthouse.failure_deltas) as has_failures,
  exists (
    select from posthouse.bulk_changes as b
    where (b.state in ('gathering', 'running') and b.starts_at <= t.at)
      or (b.ended_at > t.at - interval '1 day' and exists (
        select from posthouse.bulk_change_jobs as j where j.bulk_id = b.id and j.state in ('retried', 'failing')))
  ) as has_bulk_changes,
  exists (select from posthouse.erasures as e where e.ended_at is null) as has_erasures,
  coalesce((select max(m.minute) + interval '1 minute' from posthouse.sampled_minutes as m)
           < posthouse.minute_of(t.at - interval '2 seconds'), true) as has_minute,
  exists (select from posthouse.alerts as a where a.state = 'new')
    or exists (select from posthouse.alert_groups as g where g.held > 0 and g.quiet_until <= t.at)
    or exists (select from posthouse.alert_deliveries as d where d.state = 'queued') as has_alerts,
  (select max(c.id) from posthouse.worker_changes as c) as worker_change
from (select posthouse.now() as at) as t

-- name: promote
-- Rechecks edges that may have raced the end of their dependency (first: see recheck_dependencies), promotes due jobs,
-- and returns the seconds until the next one is due.
select posthouse.recheck_dependencies(%s::xid8[])::text, posthouse.promote(%s), posthouse.next_due()

-- name: tidy
-- Deletes workers, dedupe keys, responses and progress that are no longer needed; returns how many rows.
select posthouse.tidy(posthouse.now() - make_interval(secs => %(days)s * 86400))
