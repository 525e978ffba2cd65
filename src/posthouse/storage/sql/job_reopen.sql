-- Retries a finished job; returns the outcome.
select posthouse.reopen(%(id)s, %(tenant)s, %(actor)s, %(fresh)s)
