-- Events, newest first, with counts of their matches by outcome; pages continue after (before_at, before_id).
select
  e.id, e.at, e.tenant_id, e.name, e.context, e.subject, e.correlation_id, e.created_by,
  exists (select from posthouse.unmatched as u where u.event_id = e.id) as pending,
  count(*) filter (where m.outcome = 'fired') as fired,
  count(*) filter (where m.outcome = 'deduped') as deduped,
  count(*) filter (where m.outcome = 'error') as errors
from (
  select * from posthouse.events as e
  where (%(id)s::uuid is null or e.id = %(id)s::uuid)
    and (%(tenant)s::text is null or e.tenant_id = %(tenant)s::text)
    and (%(name)s::text is null or posthouse.event_fits(%(name)s::text, e.name))
    and (%(before_at)s::timestamptz is null or (e.at, e.id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
  order by e.at desc, e.id desc limit %(limit)s) as e
left join posthouse.matches as m on m.event_id = e.id and m.event_at = e.at
group by e.id, e.at, e.tenant_id, e.name, e.context, e.subject, e.correlation_id, e.created_by
order by e.at desc, e.id desc
