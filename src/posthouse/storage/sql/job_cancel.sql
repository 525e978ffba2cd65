-- Cancels a job; says what became of it.
select posthouse.cancel(%(id)s, %(tenant)s, %(actor)s)
