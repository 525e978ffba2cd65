select posthouse.create_key(%(key)s::jsonb, %(hash)s, %(actor)s)
