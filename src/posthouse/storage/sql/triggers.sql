-- Triggers, events and schedules.

-- name: triggers_list
-- Triggers, or one of them, with the time at which each last created a job; pages continue after a tenant, label and
-- id.
select
  t.id, t.tenant_id, t.name, t.label, t.enabled, t.type, t.event_name, t.cron_expr, t.timezone, t.definition_key,
  t.payload_template, t.dedupe_window_seconds, t.queue, t.priority, t.gap, t.fold, t.missed, t.catch_up_limit,
  t.overlap, t.jitter_seconds, t.origin, t.next_at, t.last_nominal_at, t.last_error, t.last_error_at, t.created_by,
  t.created_at, t.updated_at, t.version,
  case t.type
    when 'event' then (select m.at from posthouse.trigger_matches as m
                       where m.trigger_id = t.id and m.outcome = 'fired' order by m.at desc limit 1)
    else (select r.at from posthouse.schedule_runs as r
          where r.trigger_id = t.id and r.outcome = 'fired' order by r.nominal_at desc limit 1)
  end as last_fired_at
from posthouse.triggers as t
where (%(id)s::uuid is null or t.id = %(id)s::uuid)
  and (%(tenant)s::text is null or t.tenant_id = %(tenant)s::text)
  and (%(type)s::text is null or t.type = %(type)s::text)
  and (%(after)s::text[] is null
    or (t.tenant_id, t.label, t.id::text) > ((%(after)s::text[])[1], (%(after)s::text[])[2], (%(after)s::text[])[3]))
order by t.tenant_id, t.label, t.id::text
limit %(limit)s

-- name: trigger_matches
-- Outcomes of an event trigger, latest first.
select m.at, m.outcome, m.event_id, e.name as event_name, m.replay, null::timestamptz as nominal_at,
       null::timestamptz as missed_until, m.error as reason, m.job_id, j.status as job_status,
       j.started_at as job_started_at, j.finished_at as job_finished_at
from (
  select * from posthouse.trigger_matches as m
  where m.trigger_id = %(id)s and (%(before)s::timestamptz is null or m.at < %(before)s::timestamptz)
  order by m.at desc limit %(limit)s) as m
left join posthouse.events as e on e.id = m.event_id and e.at = m.event_at
left join lateral (
  select j.status, j.started_at, j.finished_at from posthouse.jobs as j where j.id = m.job_id limit 1) as j on true
order by m.at desc

-- name: trigger_runs
-- Outcomes of a schedule's runs, latest first.
select r.at, r.outcome, null::uuid as event_id, null as event_name, 0 as replay, r.nominal_at, r.missed_until, r.reason,
       r.job_id, j.status as job_status, j.started_at as job_started_at, j.finished_at as job_finished_at
from (
  select * from posthouse.schedule_runs as r
  where r.trigger_id = %(id)s and (%(before)s::timestamptz is null or r.nominal_at < %(before)s::timestamptz)
  order by r.nominal_at desc limit %(limit)s) as r
left join lateral (
  select j.status, j.started_at, j.finished_at from posthouse.jobs as j where j.id = r.job_id limit 1) as j on true
order by r.nominal_at desc

-- name: events_list
-- Events, newest first, with counts of their matches by outcome; pages continue after (before_at, before_id).
select
  e.id, e.at, e.tenant_id, e.name, e.context, e.subject, e.correlation_id, e.created_by,
  exists (select from posthouse.pending_events as p where p.event_id = e.id) as pending,
  count(*) filter (where m.outcome = 'fired') as fired,
  count(*) filter (where m.outcome = 'deduped') as deduped,
  count(*) filter (where m.outcome = 'error') as errors
from (
  select * from posthouse.events as e
  where (%(id)s::uuid is null or e.id = %(id)s::uuid)
    and (%(tenant)s::text is null or e.tenant_id = %(tenant)s::text)
    and (%(name)s::text is null or posthouse.event_name_matches(%(name)s::text, e.name))
    and (%(before_at)s::timestamptz is null or (e.at, e.id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
  order by e.at desc, e.id desc limit %(limit)s) as e
left join posthouse.trigger_matches as m on m.event_id = e.id and m.event_at = e.at
group by e.id, e.at, e.tenant_id, e.name, e.context, e.subject, e.correlation_id, e.created_by
order by e.at desc, e.id desc

-- name: event_show
-- An event of a tenant, as it was emitted.
select e.id, e.at, e.tenant_id, e.name, e.context, e.subject, e.correlation_id
from posthouse.events as e where e.id = %(id)s and e.tenant_id = %(tenant)s
limit 1

-- name: event_latest
-- The latest event of a tenant that matches a pattern, among a limited number of recent ones.
select e.id, e.at, e.tenant_id, e.name, e.context, e.subject, e.correlation_id
from (select * from posthouse.events as e where e.tenant_id = %(tenant)s order by e.at desc limit %(max_scanned)s) as e
where posthouse.event_name_matches(%(pattern)s, e.name)
order by e.at desc
limit 1

-- name: event_matches
-- The matches of an event with triggers.
select m.trigger_id, t.label, m.replay, m.at, m.outcome, m.job_id, m.error
from posthouse.trigger_matches as m left join posthouse.triggers as t on t.id = m.trigger_id
where m.event_id = %(id)s order by m.at, m.trigger_id, m.replay

-- name: events_waiting
-- Whether any event has not been matched with triggers yet.
select exists (select from posthouse.pending_events) as waiting
