-- Removes an API server that stops.
select posthouse.server_leave(%(id)s)
