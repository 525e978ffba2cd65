-- Stops a bulk retry: the state it had.
select posthouse.stop_bulk_retry(%(id)s, %(actor)s)
