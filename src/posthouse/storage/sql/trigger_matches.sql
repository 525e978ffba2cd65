-- Outcomes of an event trigger, latest first.
select m.at, m.outcome, m.event_id, e.name as event_name, m.replay, null::timestamptz as nominal_at,
       null::timestamptz as through, m.error as reason, m.job_id, j.status as job_status,
       j.started_at as job_started_at, j.finished_at as job_finished_at
from (
  select * from posthouse.matches as m
  where m.trigger_id = %(id)s and (%(before)s::timestamptz is null or m.at < %(before)s::timestamptz)
  order by m.at desc limit %(limit)s) as m
left join posthouse.events as e on e.id = m.event_id and e.at = m.event_at
left join lateral (
  select j.status, j.started_at, j.finished_at from posthouse.jobs as j where j.id = m.job_id limit 1) as j on true
order by m.at desc
