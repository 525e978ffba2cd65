-- Sets the retention of a tenant's jobs.
select posthouse.set_tenant_retention(%(tenant)s, %(days)s::double precision, %(actor)s)
