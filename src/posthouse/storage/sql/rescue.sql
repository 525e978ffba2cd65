-- Rescues jobs with lost leases.
select id, worker_id, event
from posthouse.rescue(%(crash_limit)s, make_interval(secs => %(grace)s), p_expired => %(expired)s,
  p_remote_grace => make_interval(secs => %(remote_grace)s), p_jitter => make_interval(secs => %(jitter)s))
