-- Deletes a tenant unless it has active jobs; null if it does not exist.
select posthouse.delete_tenant(%(tenant)s, %(actor)s)
