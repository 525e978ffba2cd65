-- Forgets a tenant, unless it has active jobs; null if there is none.
select posthouse.delete_tenant(%(tenant)s, %(actor)s)
