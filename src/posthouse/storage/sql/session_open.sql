-- Starts a login; when it ends.
select posthouse.open_session(%(session)s::jsonb, %(hash)s, %(seconds)s)
