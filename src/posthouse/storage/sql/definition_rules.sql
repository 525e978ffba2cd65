-- The rules of the kinds in a JSON array, or of all kinds if it is null. As text, so that all drivers return the same.
select jsonb_build_object(
  'key', d.key, 'announced_schema', (d.announced -> 'schema')::text, 'active', d.active, 'schema', d.schema::text, 'redact', d.redact, 'overrides', d.overrides,
  'runner', d.runner, 'command', d.command, 'queue', d.queue, 'timeout_seconds', d.timeout_seconds, 'retry', d.retry)::text
from posthouse.definitions as d
cross join (select %s::jsonb) as asked (keys)
where asked.keys = 'null' or jsonb_exists(asked.keys, d.key)
