-- What says which parts of a job are secret: its payload, and the marks of its kind.
select j.payload, d.schema::text as schema, coalesce(d.redact, '{}') as redact
from posthouse.jobs as j
left join posthouse.definitions as d on d.key = j.kind
where j.id = %(id)s
