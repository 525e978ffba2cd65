-- Ends a key; false if it had ended, null if there is none.
select posthouse.revoke_key(%(prefix)s, %(tenant)s, %(actor)s)
