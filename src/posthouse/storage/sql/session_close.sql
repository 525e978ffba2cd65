-- Ends a session.
delete from posthouse.sessions where hash = %(hash)s
