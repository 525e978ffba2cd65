-- Takes lost leases back.
select id, worker_id, event
from posthouse.rescue(%(crash_limit)s, make_interval(secs => %(grace)s), p_expired => %(expired)s)
