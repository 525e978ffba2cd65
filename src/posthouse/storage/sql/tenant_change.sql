-- Changes fields of a tenant; false if it does not exist.
select posthouse.change_tenant(%(tenant)s, %(fields)s::jsonb, %(actor)s)
