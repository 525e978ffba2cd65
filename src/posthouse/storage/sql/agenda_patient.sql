-- What the other steps of the keeper have to do.
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
