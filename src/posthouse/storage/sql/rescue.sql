-- Takes lost leases back.
select id, worker_id, event from posthouse.rescue(%s, make_interval(secs => %s))
