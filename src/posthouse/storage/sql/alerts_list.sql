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
