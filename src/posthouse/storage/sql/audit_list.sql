-- Audit entries, newest first, below the last id seen. Entries of a month are stored together.
select id, at, actor, action, tenant_id, target, before, after
from posthouse.audit
where (%(actor)s::text is null or actor = %(actor)s::text)
  and (%(action)s::text is null or action = %(action)s::text or starts_with(action, %(action)s::text || '.'))
  and (%(target)s::text is null or target = %(target)s::text)
  and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and (%(since)s::timestamptz is null or at >= %(since)s::timestamptz)
  and (%(until)s::timestamptz is null or at < %(until)s::timestamptz)
  and (%(after)s::bigint is null or id < %(after)s::bigint)
  and (%(above)s::bigint is null or id > %(above)s::bigint)
order by id desc
limit %(limit)s
