-- Runs an ended job again; says what became of it.
select posthouse.reopen(%(id)s, %(tenant)s, %(actor)s, %(fresh)s)
