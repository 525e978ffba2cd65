-- Ends a login.
delete from posthouse.sessions where hash = %(hash)s
