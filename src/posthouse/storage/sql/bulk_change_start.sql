-- Starts a bulk change; returns its id.
select posthouse.start_bulk_change(
  %(id)s, %(chosen)s::jsonb, %(rate)s, %(stop_share)s, %(stop_after)s, %(actor)s, %(action)s, %(wanted)s::jsonb,
  %(in_seconds)s)
