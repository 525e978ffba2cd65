-- Tenants that were created or have jobs, or one of them: what is queued, what runs, and their share beside each other.
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
