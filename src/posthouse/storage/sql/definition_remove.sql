-- Removes a definition; false if there is none. Audited.
select posthouse.remove_definition(%(key)s, %(actor)s, %(force)s)
