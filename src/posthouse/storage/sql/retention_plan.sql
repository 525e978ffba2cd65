-- The pending work of retention, in order.
select thing, relation, name, action, tenants, starts_at, ends_at, rows, bytes
from posthouse.retention_plan(%(days)s::jsonb)
