-- Disables a worker; false if it is already.
select posthouse.disable_worker(%(id)s, %(actor)s)
