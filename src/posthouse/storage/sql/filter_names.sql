-- Names that a filter can use, each with a short description: defined, queued or running.
select value, coalesce(max(detail), '') as detail
from (
  select key as value, nullif(description, '') as detail from posthouse.definitions where %(field)s = 'kind'
  union all select kind, null from posthouse.lanes where %(field)s = 'kind'
  union all select queue, null from posthouse.definitions where %(field)s = 'queue'
  union all select queue, null from posthouse.lanes where %(field)s = 'queue'
  union all select name, case when paused_at is not null then 'paused' end from posthouse.queues where %(field)s = 'queue'
  union all select name, hostname from posthouse.seen_workers() where %(field)s = 'worker' and name <> ''
  union all select id, nullif(label, '') from posthouse.tenants where %(field)s = 'tenant'
  union all select tenant_id, null from posthouse.lanes where %(field)s = 'tenant'
  union all (select fingerprint, type || ': ' || message from posthouse.failure_groups
             where %(field)s = 'fingerprint' order by last_seen desc limit 100)
  union all (select type, null from posthouse.failure_groups
             where %(field)s = 'error' and type <> '' order by last_seen desc limit 100)
) as names (value, detail)
where starts_with(lower(value), lower(%(typed)s))
group by value
order by value
limit %(limit)s
