-- Jobs that finished recently (history) or have a finished attempt (past_attempts), and when.
select id, at from posthouse.lately(%(table)s, %(since)s, %(pages)s)
