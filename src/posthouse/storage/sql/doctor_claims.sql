-- Queues from which something was claimed within a time. An attempt that started is running, was recorded,
-- or ended its job.
select distinct queue
from (
  select queue from posthouse.running
  where attempt_started_at > posthouse.now() - make_interval(secs => %(within)s)
  union all
  select queue from posthouse.history
  where finished_at > posthouse.now() - make_interval(secs => %(within)s)
    and attempt_started_at > posthouse.now() - make_interval(secs => %(within)s)
  union all
  select j.queue
  from posthouse.past_attempts as a join posthouse.waiting as j on j.id = a.job_id
  where a.finished_at > posthouse.now() - make_interval(secs => %(within)s)
    and a.started_at > posthouse.now() - make_interval(secs => %(within)s)
) as claims
