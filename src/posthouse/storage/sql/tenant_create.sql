-- Creates a tenant; false if there is one of that name.
select posthouse.create_tenant(%(tenant)s, %(fields)s::jsonb, %(actor)s)
