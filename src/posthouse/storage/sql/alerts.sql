-- Alerts and their delivery.

-- name: alerts_list
-- Matching alerts, newest first, with the state of their deliveries.
select
  a.id, a.at, a.type, t.severity, a.tenant_id, a.subject, a.message, a.details, a.state, a.told_at, a.held_back,
  coalesce((
    select jsonb_agg(jsonb_build_object(
      'destination', d.destination, 'job_id', d.job_id, 'state', d.state, 'error', d.error) order by d.destination)
    from posthouse.alert_deliveries as d where d.alert_id = a.id), '[]') as deliveries
from posthouse.alerts as a
join posthouse.alert_types as t on t.type = a.type
where (%(type)s::text is null or a.type = %(type)s::text)
  and (%(tenant)s::text is null or a.tenant_id = %(tenant)s::text)
  and (%(within)s::float8 is null or a.at >= posthouse.now() - make_interval(secs => %(within)s::float8))
  and (%(before_at)s::timestamptz is null or (a.at, a.id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
order by a.at desc, a.id desc
limit %(limit)s

-- name: alert_counts
-- How many alerts of each type were raised and suppressed, and how many messages were sent or failed.
select type, severity, raised, suppressed, sent, failed from posthouse.alert_types order by type

-- name: alert_delivery
-- The alert that a job delivers, and its destination.
select d.destination, a.id, a.at, a.type, t.severity, a.tenant_id, a.subject, a.message, a.details, a.held_back
from posthouse.alert_deliveries as d
join posthouse.alerts as a on a.id = d.alert_id
join posthouse.alert_types as t on t.type = a.type
where d.job_id = %(job_id)s

-- name: system_work
-- Whether a queue has a ready job for a worker with these capabilities.
select exists (
  select from posthouse.lanes as l
  where l.queue = %(queue)s and coalesce(l.requires <@ %(offers)s::text[], true)
    and exists (select from posthouse.ready as r where r.lane = l.lane))

-- name: alerts_post
-- Posts new alerts, or holds them during the cool-down of their type and subject; returns the posted ones.
select a.type, t.severity, a.tenant_id, a.subject, a.message, a.held_back
from posthouse.post_alerts(
  %(types)s, %(destinations)s, make_interval(secs => %(cooldown)s), %(most)s, %(attempts)s) as a
join posthouse.alert_types as t on t.type = a.type
