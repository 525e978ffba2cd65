-- Creates a tenant; false if it already exists.
select posthouse.create_tenant(%(tenant)s, %(fields)s::jsonb, %(actor)s)
