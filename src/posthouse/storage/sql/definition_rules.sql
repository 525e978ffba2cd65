-- What holds now for the kinds in a JSON array, or for all of them if it is null. As text: so every driver gives the same.
select jsonb_build_object(
  'key', d.key, 'active', d.active, 'schema', d.schema::text, 'redact', d.redact, 'overrides', d.overrides,
  'runner', d.runner, 'command', d.command, 'queue', d.queue, 'timeout_seconds', d.timeout_seconds, 'retry', d.retry)::text
from posthouse.definitions as d
cross join (select %s::jsonb) as asked (keys)
where asked.keys = 'null' or jsonb_exists(asked.keys, d.key)
