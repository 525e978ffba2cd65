-- Copies the rows of tenants that keep them longer; null if the partition could not be replaced now.
select posthouse.copy_kept(%(name)s, %(tenants)s)
