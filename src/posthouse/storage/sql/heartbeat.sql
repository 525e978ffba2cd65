-- Renews leases; returns the jobs that the worker must stop, and why.
select uuid_send(id), verdict
from posthouse.heartbeat(%s, %s::uuid[], %s::uuid[], make_interval(secs => %s))
