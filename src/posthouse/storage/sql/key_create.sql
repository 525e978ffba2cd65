-- Stores a key: its attributes and its hash.
select posthouse.create_key(%(key)s::jsonb, %(hash)s, %(actor)s, %(most)s)
