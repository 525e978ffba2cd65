-- Removes a limit; false if it does not exist.
select posthouse.remove_limit(%(name)s, %(actor)s)
