-- Filterable fields of these jobs. Payloads stored separately are large and are left out.
select j.subject, j.correlation_id as correlation, j.worker_id::text as worker, j.kind, j.queue,
  case when %(payloads)s then j.payload end as payload, d.schema::text as schema, coalesce(d.redact, '{}') as redact
from (
  select id, subject, correlation_id, null::uuid as worker_id, kind, queue, payload from posthouse.ready
  union all select id, subject, correlation_id, null, kind, queue, payload from posthouse.waiting
  union all select id, subject, correlation_id, worker_id, kind, queue, payload from posthouse.running
  union all select id, subject, correlation_id, worker_id, kind, queue, payload from posthouse.history) as j
left join posthouse.definitions as d on d.key = j.kind
where j.id = any (%(ids)s::uuid[])
order by j.id desc
