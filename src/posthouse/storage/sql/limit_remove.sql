-- Removes a limit; false if there is none.
select posthouse.remove_limit(%(name)s, %(actor)s)
