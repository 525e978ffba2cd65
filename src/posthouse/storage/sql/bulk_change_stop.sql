-- Stops a bulk change: the state it had.
select posthouse.stop_bulk_change(%(id)s, %(actor)s)
