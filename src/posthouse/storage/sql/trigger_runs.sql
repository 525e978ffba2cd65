-- Outcomes of a schedule's runs, latest first.
select r.at, r.outcome, null::uuid as event_id, null as event_name, 0 as replay, r.nominal_at, r.through, r.reason,
       r.job_id, j.status as job_status, j.started_at as job_started_at, j.finished_at as job_finished_at
from (
  select * from posthouse.schedule_runs as r
  where r.trigger_id = %(id)s and (%(before)s::timestamptz is null or r.nominal_at < %(before)s::timestamptz)
  order by r.nominal_at desc limit %(limit)s) as r
left join lateral (
  select j.status, j.started_at, j.finished_at from posthouse.jobs as j where j.id = r.job_id limit 1) as j on true
order by r.nominal_at desc
