-- Replaces a partition by its copy; false if the table is locked.
select posthouse.swap_kept(%(name)s, %(tenants)s)
