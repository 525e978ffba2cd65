-- Starts a session; returns its expiry.
select posthouse.open_session(%(session)s::jsonb, %(hash)s, %(seconds)s)
