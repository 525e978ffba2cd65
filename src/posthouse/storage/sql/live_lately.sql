-- Jobs that ended lately (history), or that an attempt of ended (past_attempts), and when.
select id, at from posthouse.lately(%(table)s, %(since)s, %(pages)s)
