-- Stops a bulk change; returns its previous state.
select posthouse.stop_bulk_change(%(id)s, %(actor)s)
