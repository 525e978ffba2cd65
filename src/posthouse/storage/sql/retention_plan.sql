-- The pending work of retention, in order.
select * from posthouse.retention_plan(%(days)s::jsonb)
