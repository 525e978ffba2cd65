-- Revokes a key; false if it had already ended, null if it does not exist.
select posthouse.revoke_key(%(prefix)s, %(tenant)s, %(actor)s)
