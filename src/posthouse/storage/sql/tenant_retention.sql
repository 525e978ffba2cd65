-- Sets how long a tenant's jobs are kept.
select posthouse.set_tenant_retention(%(tenant)s, %(days)s::double precision, %(actor)s)
