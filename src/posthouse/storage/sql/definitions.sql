-- Definitions, limits and tenants.

-- name: definitions_list
-- Definitions of kinds of job, or one of them, and how many online workers have a handler for each. code_defaults: the values
-- that an operator's overrides replace, from the code or the defaults.
select
  d.key, d.description, d.queue, d.priority, d.max_attempts, d.timeout_seconds, d.retry, d.schema, d.limits,
  d.requires, d.prefers, d.followup_queues, d.active, d.redact, d.keep_steps, d.keep_progress, d.runner, d.command, d.origin,
  array(select jsonb_object_keys(d.overrides) order by 1) as overridden,
  (select coalesce(jsonb_object_agg(o.key, b.code_defaults -> o.key), '{}')
   from jsonb_object_keys(d.overrides) as o (key),
     (select posthouse.definition_defaults() || coalesce(d.announced, '{}') as code_defaults) as b) as code_defaults,
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

-- name: definitions_active_kinds
-- The kinds with an active definition.
select key from posthouse.definitions where active order by key

-- name: definitions_by_kind
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

-- name: definitions_redaction_rules
-- Schema and redaction paths of the kinds that may mark secrets.
select key, schema::text as schema, redact from posthouse.definitions where redact <> '{}' or schema <> '{}'

-- name: announce_missing
-- Stores definitions, with their limits, of kinds that have none: a JSON array of announcements.
select posthouse.announce_missing(%s::jsonb)

-- name: limits_list
-- Limits, or one of them, with their use: summed over their slots, and of the fullest slot.
select
  l.name, l.kinds, l.queues, l.tenants, l.per, l.max_running, l.rate, l.burst, l.weights, l.origin, l.updated_at,
  n.in_use, n.slots, n.highest_usage, n.full_slots,
  case when l.rate is not null then coalesce(n.tokens, l.burst) end as tokens
from posthouse.limits as l
cross join lateral (
  select coalesce(sum(s.in_use), 0)::integer as in_use, count(*)::integer as slots,
         coalesce(max(s.in_use), 0)::integer as highest_usage,
         (count(*) filter (where s.in_use >= l.max_running
            or posthouse.refilled(l, s, posthouse.now()) < 1))::integer as full_slots,
         min(posthouse.refilled(l, s, posthouse.now())) as tokens
  from posthouse.limit_slots as s where s.limit_name = l.name) as n
where %(name)s::text is null or l.name = %(name)s::text
order by l.name

-- name: limit_slots_list
-- The slots of all limits, or of one, the fullest first. The name of a slot has its limit, tenant and key.
select
  l.name as limit_name, nullif(split_part(s.slot, E'\x1f', 2), '') as tenant_id,
  nullif(split_part(s.slot, E'\x1f', 3), '') as key, s.in_use, l.max_running, l.rate, l.burst,
  posthouse.refilled(l, s, posthouse.now()) as tokens
from posthouse.limit_slots as s
join posthouse.limits as l on l.name = s.limit_name
where %(name)s::text is null or l.name = %(name)s::text
order by l.name, s.in_use desc, tokens, s.slot
limit %(limit)s

-- name: tenants_list
-- Tenants that were created or have jobs, or one of them: their queued and running jobs, and their weight.
with queued as (
  select tenant_id, count(*) as queued
  from (select tenant_id from posthouse.ready union all select tenant_id from posthouse.waiting) as q
  group by tenant_id
), running as (
  select tenant_id, count(*) as running from posthouse.running group by tenant_id
), known as (
  select id as tenant_id from posthouse.tenants union select tenant_id from queued union select tenant_id from running
)
select
  tenant_id as id, coalesce(queued, 0)::integer as queued, coalesce(running, 0)::integer as running,
  coalesce(t.weight, 1) as weight, t.retention_days,
  coalesce(t.label, '') as label, t.created_at
from known
left join queued using (tenant_id)
left join running using (tenant_id)
left join posthouse.tenants as t on t.id = tenant_id
where %(id)s::text is null or tenant_id = %(id)s::text
order by tenant_id

-- name: tenants_with_retention
-- Tenants with their own retention.
select id, retention_days from posthouse.tenants where retention_days is not null order by id
