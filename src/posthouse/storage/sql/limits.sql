-- Limits and tenants.

-- name: limits_list
-- Limits, or one of them, with their use: summed over their slots, and of the fullest slot.
select
  l.name, l.kinds, l.queues, l.tenants, l.per, l.max_running, l.rate, l.burst, l.weights, l.origin, l.updated_at,
  n.in_use, n.slots, n.fullest, n.full_slots,
  case when l.rate is not null then coalesce(n.tokens, l.burst) end as tokens
from posthouse.limits as l
cross join lateral (
  select coalesce(sum(s.in_use), 0)::integer as in_use, count(*)::integer as slots,
         coalesce(max(s.in_use), 0)::integer as fullest,
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

-- name: tenants_kept
-- Tenants with their own retention.
select id, retention_days from posthouse.tenants where retention_days is not null order by id
