-- Cancels a job; returns the outcome.
select posthouse.cancel(%(id)s, %(tenant)s, %(actor)s)
