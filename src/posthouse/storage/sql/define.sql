-- Announces what kinds of job there are; touches only those that changed.
insert into posthouse.definitions as d (
  key, description, queue, priority, max_attempts, timeout_seconds, schema, updated_at)
select n.key, n.description, n.queue, n.priority, n.max_attempts, n.timeout_seconds, n.schema, posthouse.now()
from jsonb_to_recordset(%s) as n (
  key text, description text, queue text, priority integer, max_attempts integer, timeout_seconds real,
  schema jsonb)
order by n.key
on conflict (key) do update set
  description = excluded.description, queue = excluded.queue, priority = excluded.priority,
  max_attempts = excluded.max_attempts, timeout_seconds = excluded.timeout_seconds,
  schema = excluded.schema, updated_at = excluded.updated_at
where (d.description, d.queue, d.priority, d.max_attempts, d.timeout_seconds, d.schema)
  is distinct from (excluded.description, excluded.queue, excluded.priority, excluded.max_attempts,
                    excluded.timeout_seconds, excluded.schema)
