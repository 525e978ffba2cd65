-- Renews leases; returns what the worker must drop, and why.
select uuid_send(id), verdict
from posthouse.heartbeat(%s, %s::uuid[], %s::uuid[], make_interval(secs => %s))
