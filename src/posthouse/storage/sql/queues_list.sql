-- Each queue: what is in it, since when its oldest ready job could have started, how many serve it, who paused it.
with ready as (
  select queue, count(*) as ready, min(greatest(queued_at, scheduled_for)) as oldest_ready_at
  from posthouse.ready group by queue
), waiting as (
  select queue, count(*) filter (where blockers = 0) as scheduled, count(*) filter (where blockers > 0) as blocked,
         min(due_at) filter (where blockers = 0) as next_due_at
  from posthouse.waiting group by queue
), running as (
  select queue, count(*) as running from posthouse.running group by queue
), served as (
  select queue, count(*) as workers
  from posthouse.seen_workers() as w cross join unnest(w.queues) as queue
  where posthouse.is_at_work(w, %(offline_after)s)
  group by queue
), known as (
  select queue from ready union select queue from waiting union select queue from running
  union select queue from served union select queue from posthouse.definitions
  union select name from posthouse.queues where paused_at is not null
)
select
  queue as name, coalesce(ready, 0) as ready, coalesce(scheduled, 0) as scheduled,
  coalesce(blocked, 0) as blocked, coalesce(running, 0) as running, coalesce(workers, 0) as workers,
  oldest_ready_at, next_due_at, q.paused_at, q.paused_by,
  extract(epoch from posthouse.now() - oldest_ready_at)::double precision as oldest_ready_seconds
from known
left join ready using (queue)
left join waiting using (queue)
left join running using (queue)
left join served using (queue)
left join posthouse.queues as q on q.name = queue
order by queue
