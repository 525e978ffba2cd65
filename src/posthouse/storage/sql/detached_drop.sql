-- Drops a detached partition; false if it is locked.
select posthouse.drop_detached(%(name)s)
