-- Removes a definition; false if it does not exist. Audited.
select posthouse.remove_definition(%(key)s, %(actor)s, %(force)s)
