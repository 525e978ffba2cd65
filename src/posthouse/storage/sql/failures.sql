-- Failure groups, bulk changes and alerts.

-- name: failures_list
-- Failure groups, the latest first, each with its counts of the last hour in steps of five minutes, and of the last day
-- in hours. Counts are read once for all groups: reading each step separately took twice as long.
with moment as materialized (
  select posthouse.failure_step(posthouse.now()) as step,
         date_bin('1 hour', posthouse.now(), '2000-01-01 00:00:00+00') as hour
), chosen as materialized (
  select f.* from posthouse.failures as f
  where (%(fingerprint)s::text is null or f.fingerprint like %(fingerprint)s::text || '%%')
    and (%(kind)s::text is null or f.kind = %(kind)s::text)
    and (%(tenant)s::text is null or f.tenant_id = %(tenant)s::text)
    and (%(since)s::timestamptz is null or f.last_seen >= %(since)s::timestamptz)
    and (%(behind_at)s::timestamptz is null or f.last_seen < %(behind_at)s::timestamptz
      or (f.last_seen = %(behind_at)s::timestamptz and (f.tenant_id, f.kind, f.fingerprint)
          > (%(behind_tenant)s::text, %(behind_kind)s::text, %(behind_fingerprint)s::text)))
  order by f.last_seen desc, f.tenant_id, f.kind, f.fingerprint
  limit %(limit)s
), counted as materialized (
  select g.tenant_id, g.kind, g.fingerprint, c.at, c.failures
  from chosen as g
  join posthouse.failure_counts as c using (tenant_id, kind, fingerprint)
  where c.at >= (select hour - interval '23 hours' from moment)
  union all
  select g.tenant_id, g.kind, g.fingerprint, posthouse.failure_step(d.at), d.failures
  from chosen as g
  join posthouse.failure_deltas as d using (tenant_id, kind, fingerprint)
  where d.at >= (select hour - interval '23 hours' from moment)
), steps as (
  select g.tenant_id, g.kind, g.fingerprint, array_agg(coalesce(c.failures, 0) order by ago.n desc) as last_hour
  from moment cross join chosen as g cross join generate_series(0, 11) as ago (n)
  left join (select tenant_id, kind, fingerprint, at, sum(failures)::integer as failures from counted
             group by tenant_id, kind, fingerprint, at) as c
    on (c.tenant_id, c.kind, c.fingerprint) = (g.tenant_id, g.kind, g.fingerprint)
    and c.at = moment.step - ago.n * interval '5 minutes'
  group by g.tenant_id, g.kind, g.fingerprint
), hours as (
  select g.tenant_id, g.kind, g.fingerprint, array_agg(coalesce(c.failures, 0) order by ago.n desc) as last_day
  from moment cross join chosen as g cross join generate_series(0, 23) as ago (n)
  left join (select tenant_id, kind, fingerprint, date_bin('1 hour', at, '2000-01-01 00:00:00+00') as at,
                    sum(failures)::integer as failures
             from counted group by 1, 2, 3, 4) as c
    on (c.tenant_id, c.kind, c.fingerprint) = (g.tenant_id, g.kind, g.fingerprint)
    and c.at = moment.hour - ago.n * interval '1 hour'
  group by g.tenant_id, g.kind, g.fingerprint
)
select
  g.tenant_id, g.kind, g.fingerprint, g.type, g.message, g.job_id, g.failures, g.dead_letter, g.failed, g.canceled,
  g.first_seen, g.last_seen, s.last_hour, h.last_day
from chosen as g
join steps as s using (tenant_id, kind, fingerprint)
join hours as h using (tenant_id, kind, fingerprint)
order by g.last_seen desc, g.tenant_id, g.kind, g.fingerprint

-- name: failure_latest_error
-- The error of the latest attempt of a job that has this fingerprint.
select error from (
  select a.error, a.finished_at from posthouse.past_attempts as a
  where a.job_id = %(job_id)s and a.error ->> 'fingerprint' = %(fingerprint)s
  union all
  select h.error, h.finished_at from posthouse.history as h
  where h.id = %(job_id)s and h.error ->> 'fingerprint' = %(fingerprint)s
) as found
order by finished_at desc
limit 1

-- name: failure_jobs
-- Ended jobs of a failure group, the latest first.
select h.id, h.status, h.queue, h.attempt_count, h.max_attempts, h.generation, h.subject, h.finished_at
from posthouse.history as h
where h.status <> 'succeeded' and h.error ->> 'fingerprint' = %(fingerprint)s and h.kind = %(kind)s
  and h.tenant_id = %(tenant)s
order by h.finished_at desc
limit %(limit)s

-- name: bulk_changes_list
-- Bulk changes, newest first; optionally the one with this id, or only those with this action.
select
  id, action, state, criteria, rate, stop_share, stop_after, total, retried, canceled, skipped, succeeded, failed,
  created_at, created_by, starts_at, ended_at, reason
from posthouse.bulk_changes
where (%(id)s::uuid is null or id = %(id)s::uuid)
  and (%(action)s::text is null or action = %(action)s::text)
  and (%(tenant)s::text is null or criteria ->> 'tenant' = %(tenant)s::text)
  and (%(before_at)s::timestamptz is null or (created_at, id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
order by created_at desc, id desc
limit %(limit)s

-- name: bulk_change_count
-- How many ended jobs a bulk retry with these criteria would retry now; counted up to a number.
select count(*) from (select from posthouse.select_retriable_jobs(%(criteria)s::jsonb, posthouse.now()) limit %(most)s) as c

-- name: delete_old_failures
-- Deletes failure groups and bulk changes without activity for a number of days.
select posthouse.delete_old_failures(before) + posthouse.delete_old_bulk_changes(before)
from (select posthouse.now() - make_interval(secs => %(days)s * 86400) as before) as b

-- name: alerts_list
-- Matching alerts, newest first, with the state of their deliveries.
select
  a.id, a.at, a.type, t.severity, a.tenant_id, a.subject, a.message, a.details, a.state, a.posted_at, a.suppressed_count,
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
select d.destination, a.id, a.at, a.type, t.severity, a.tenant_id, a.subject, a.message, a.details, a.suppressed_count
from posthouse.alert_deliveries as d
join posthouse.alerts as a on a.id = d.alert_id
join posthouse.alert_types as t on t.type = a.type
where d.job_id = %(job_id)s

-- name: system_queue_has_work
-- Whether a queue has a ready job for a worker with these capabilities.
select exists (
  select from posthouse.lanes as l
  where l.queue = %(queue)s and coalesce(l.requires <@ %(capabilities)s::text[], true)
    and exists (select from posthouse.ready as r where r.lane = l.lane))

-- name: alerts_post
-- Posts new alerts, or holds them during the cool-down of their type and subject; returns the posted ones.
select a.type, t.severity, a.tenant_id, a.subject, a.message, a.suppressed_count
from posthouse.post_alerts(
  %(types)s, %(destinations)s, make_interval(secs => %(cooldown)s), %(limit)s, %(attempts)s) as a
join posthouse.alert_types as t on t.type = a.type
