-- Queued and running jobs per tenant and queue, and the age of the oldest ready job.
select tenant_id, queue, sum(ready)::integer as ready, sum(scheduled)::integer as scheduled,
       sum(blocked)::integer as blocked, sum(running)::integer as running,
       extract(epoch from posthouse.now() - min(oldest))::double precision as oldest_ready_seconds
from (
  select tenant_id, queue, count(*) as ready, 0 as scheduled, 0 as blocked, 0 as running,
         min(greatest(queued_at, scheduled_for)) as oldest
  from posthouse.ready group by 1, 2
  union all
  select tenant_id, queue, 0, count(*) filter (where blockers = 0), count(*) filter (where blockers > 0), 0, null
  from posthouse.waiting group by 1, 2
  union all
  select tenant_id, queue, 0, 0, 0, count(*), null from posthouse.running group by 1, 2) as counted
group by 1, 2
order by 1, 2
