-- Asks a worker to finish its work and stop; false if it was asked already.
select posthouse.drain_worker(%(id)s, %(actor)s)
