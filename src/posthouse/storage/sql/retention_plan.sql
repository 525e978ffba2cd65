-- What retention has to do now, in order.
select * from posthouse.retention_plan(%(days)s::jsonb)
