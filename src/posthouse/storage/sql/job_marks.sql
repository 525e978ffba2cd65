-- The payload of a job as text, which is parsed in a thread if it is large, and the schema and redaction paths of its kind.
select j.payload::text as payload, d.schema::text as schema, coalesce(d.redact, '{}') as redact
from posthouse.jobs as j
left join posthouse.definitions as d on d.key = j.kind
where j.id = %(id)s
