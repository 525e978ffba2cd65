select posthouse.revoke_key(%(prefix)s, %(tenant)s, %(actor)s)
