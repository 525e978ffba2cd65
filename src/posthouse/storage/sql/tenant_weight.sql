-- Sets a tenant's weight.
select posthouse.set_tenant_weight(%(tenant)s, %(weight)s, %(actor)s)
