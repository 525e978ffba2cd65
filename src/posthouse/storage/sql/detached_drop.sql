-- Drops a detached partition; false if somebody reads it.
select posthouse.drop_detached(%(name)s)
