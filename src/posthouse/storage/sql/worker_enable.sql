-- Lets a worker claim again; false if nothing kept it from that.
select posthouse.enable_worker(%(id)s, %(actor)s)
