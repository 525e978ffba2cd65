-- Records an action in the audit log.
select posthouse.note(%(actor)s, %(action)s, %(tenant)s, %(target)s, %(before)s::jsonb, %(after)s::jsonb)
