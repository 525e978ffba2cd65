-- Starts a bulk retry; its id.
select posthouse.start_bulk_retry(%(id)s, %(chosen)s::jsonb, %(rate)s, %(stop_share)s, %(stop_after)s, %(actor)s)
