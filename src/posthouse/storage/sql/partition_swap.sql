-- Puts the copy in the place of its partition; false if it could not be locked.
select posthouse.swap_kept(%(name)s, %(tenants)s)
