-- Definitions of kinds of job.

-- name: definitions_list
-- Definitions of kinds of job, or one of them, and how many online workers have a handler for each. beneath: the values
-- that an operator's overrides replace, from the code or the defaults.
select
  d.key, d.description, d.queue, d.priority, d.max_attempts, d.timeout_seconds, d.retry, d.schema, d.limits,
  d.requires, d.prefers, d.followup_queues, d.active, d.redact, d.keep_steps, d.keep_progress, d.runner, d.command, d.origin,
  array(select jsonb_object_keys(d.overrides) order by 1) as overridden,
  (select coalesce(jsonb_object_agg(o.key, b.beneath -> o.key), '{}')
   from jsonb_object_keys(d.overrides) as o (key),
     (select posthouse.definition_defaults() || coalesce(d.announced, '{}') as beneath) as b) as beneath,
  d.version, d.created_at, d.updated_at,
  (select count(*) from posthouse.visible_workers() as w
   where d.key = any (w.kinds) and posthouse.is_online(w, %(offline_after)s)) as workers
from posthouse.definitions as d
where (%(key)s::text is null or d.key = %(key)s::text)
  and (%(after)s::text is null or d.key > %(after)s::text)
order by d.key
limit %(limit)s

-- name: definition_keys
-- The keys of all definitions.
select key from posthouse.definitions order by key

-- name: kinds_known
-- The kinds with an active definition.
select key from posthouse.definitions where active order by key

-- name: definition_rules
-- The rules of the kinds in a JSON array, or of all kinds if the parameter is JSON null. As text, so that all drivers
-- return the same.
select jsonb_build_object(
  'key', d.key, 'announced_schema', (d.announced -> 'schema')::text, 'active', d.active, 'schema', d.schema::text, 'redact', d.redact, 'overrides', d.overrides,
  'runner', d.runner, 'command', d.command, 'queue', d.queue, 'timeout_seconds', d.timeout_seconds, 'retry', d.retry)::text
from posthouse.definitions as d
cross join (select %s::jsonb) as asked (keys)
where asked.keys = 'null' or jsonb_exists(asked.keys, d.key)

-- name: definitions_digest
-- A text that changes whenever a definition changes, in any order of commits.
select concat_ws(' ', count(*), sum(version), max(updated_at)) from posthouse.definitions

-- name: definitions_with_secrets
-- Schema and redaction paths of the kinds that may mark secrets.
select key, schema::text as schema, redact from posthouse.definitions where redact <> '{}' or schema <> '{}'

-- name: announce_missing
-- Stores definitions, with their limits, of kinds that have none: a JSON array of announcements.
select posthouse.announce_missing(%s::jsonb)
