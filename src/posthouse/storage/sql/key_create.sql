-- Stores a key: what it is like, and a hash of it.
select posthouse.create_key(%(key)s::jsonb, %(hash)s, %(actor)s)
