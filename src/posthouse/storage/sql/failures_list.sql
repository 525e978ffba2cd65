-- Failure groups, the latest first, each with its counts of the last hour in steps of five minutes, and of the
-- last day in hours.
select
  f.tenant_id, f.kind, f.fingerprint, f.type, f.message, f.job_id, f.failures, f.dead_letter, f.failed, f.canceled,
  f.first_seen, f.last_seen, h.steps as last_hour,
  d.steps as last_day
from posthouse.failures as f
cross join lateral (
  select array_agg(coalesce(c.failures, 0) order by step.at) as steps
  from generate_series(
    posthouse.failure_step(posthouse.now()) - interval '55 minutes', posthouse.failure_step(posthouse.now()),
    interval '5 minutes') as step (at)
  left join lateral (
    select sum(part.failures)::integer as failures
    from (
      select c.failures from posthouse.failure_counts as c
      where c.tenant_id = f.tenant_id and c.kind = f.kind and c.fingerprint = f.fingerprint and c.at = step.at
      union all
      select d.failures from posthouse.failure_deltas as d
      where d.tenant_id = f.tenant_id and d.kind = f.kind and d.fingerprint = f.fingerprint
        and posthouse.failure_step(d.at) = step.at
    ) as part
  ) as c on true
) as h
cross join lateral (
  select array_agg(coalesce(c.failures, 0) order by hour.at) as steps
  from generate_series(
    date_bin('1 hour', posthouse.now(), '2000-01-01 00:00:00+00') - interval '23 hours',
    date_bin('1 hour', posthouse.now(), '2000-01-01 00:00:00+00'), interval '1 hour') as hour (at)
  left join lateral (
    select sum(part.failures)::integer as failures
    from (
      select c.failures from posthouse.failure_counts as c
      where c.tenant_id = f.tenant_id and c.kind = f.kind and c.fingerprint = f.fingerprint
        and c.at >= hour.at and c.at < hour.at + interval '1 hour'
      union all
      select d.failures from posthouse.failure_deltas as d
      where d.tenant_id = f.tenant_id and d.kind = f.kind and d.fingerprint = f.fingerprint
        and d.at >= hour.at and d.at < hour.at + interval '1 hour'
    ) as part
  ) as c on true
) as d
where (%(fingerprint)s::text is null or f.fingerprint like %(fingerprint)s::text || '%%')
  and (%(kind)s::text is null or f.kind = %(kind)s::text)
  and (%(tenant)s::text is null or f.tenant_id = %(tenant)s::text)
  and (%(since)s::timestamptz is null or f.last_seen >= %(since)s::timestamptz)
  and (%(behind_at)s::timestamptz is null or f.last_seen < %(behind_at)s::timestamptz
    or (f.last_seen = %(behind_at)s::timestamptz and (f.tenant_id, f.kind, f.fingerprint)
        > (%(behind_tenant)s::text, %(behind_kind)s::text, %(behind_fingerprint)s::text)))
order by f.last_seen desc, f.tenant_id, f.kind, f.fingerprint
limit %(limit)s
