-- Changes fields of a tenant; false if there is none.
select posthouse.change_tenant(%(tenant)s, %(fields)s::jsonb, %(actor)s)
