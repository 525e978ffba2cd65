-- Takes lost leases back.
select id, worker_id, event from posthouse.rescue(%s::uuid[], %s, make_interval(secs => %s))
