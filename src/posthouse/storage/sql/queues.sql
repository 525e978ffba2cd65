-- Queues: lists, counts, pausing.

-- name: queues_list
-- Each queue: its jobs, since when its oldest ready job could have started, how many workers serve it, and who paused
-- it.
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
  from posthouse.visible_workers() as w cross join unnest(w.queues) as queue
  where posthouse.accepts_jobs(w, %(offline_after)s)
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

-- name: glance_queues
-- A summary of each queue. Ready jobs are found and counted by their lanes, up to a number in each: a tenant's own
-- lanes are few, no matter how long those of others are.
with mine as materialized (
  select lane, min(queue) as queue from posthouse.lanes
  where %(tenant)s::text is null or tenant_id = %(tenant)s::text group by lane
), ready as (
  select m.queue, sum(c.jobs)::bigint as ready, min(h.since) as oldest_at
  from mine as m
  cross join lateral (
    select count(*) as jobs from (
      select from posthouse.ready as r where r.lane = m.lane limit %(most)s) as counted) as c
  left join lateral (
    select greatest(r.queued_at, r.scheduled_for) as since
    from posthouse.ready as r where r.lane = m.lane order by r.position limit 1) as h on true
  where c.jobs > 0
  group by m.queue
), waiting as (
  select queue, count(*) filter (where blockers = 0) as scheduled, count(*) filter (where blockers > 0) as blocked
  from (select w.queue, w.blockers from posthouse.waiting as w
        where %(tenant)s::text is null or w.tenant_id = %(tenant)s::text limit %(most)s) as w
  group by queue
), running as (
  select queue, count(*) as running from posthouse.running
  where %(tenant)s::text is null or tenant_id = %(tenant)s::text group by queue
), served as (
  select queue, count(*) as workers
  from posthouse.visible_workers() as w cross join unnest(w.queues) as queue
  where posthouse.accepts_jobs(w, %(offline_after)s)
  group by queue
), known as (
  select queue from ready union select queue from waiting union select queue from running
  union select queue from served union select queue from posthouse.definitions
  union select name from posthouse.queues where paused_at is not null
)
select
  queue as name, coalesce(ready, 0) as ready, coalesce(scheduled, 0) as scheduled, coalesce(blocked, 0) as blocked,
  coalesce(running, 0) as running, coalesce(workers, 0) as workers, q.paused_at,
  extract(epoch from posthouse.now() - oldest_at)::double precision as oldest_ready_seconds
from known
left join ready using (queue)
left join waiting using (queue)
left join running using (queue)
left join served using (queue)
left join posthouse.queues as q on q.name = queue
order by queue

-- name: census
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

-- name: queue_counts
-- The unfinished jobs of a queue, and whether it is paused.
select
  %(name)s::text as name,
  (select count(*) from posthouse.running where queue = %(name)s)::integer as running,
  (select count(*) from posthouse.ready where queue = %(name)s)::integer as ready,
  (select count(*) from posthouse.waiting where queue = %(name)s)::integer as waiting,
  (select q.paused_at from posthouse.queues as q where q.name = %(name)s) as paused_at

-- name: queue_known
-- Whether any job, worker or definition uses a queue.
select exists (select from posthouse.lanes where queue = %(name)s)
  or exists (select from posthouse.waiting where queue = %(name)s)
  or exists (select from posthouse.workers where %(name)s = any (queues))
  or exists (select from posthouse.definitions where queue = %(name)s)

-- name: queues_paused
-- Queues that are paused.
select name from posthouse.queues where paused_at is not null order by name

-- name: dispatch_ready
-- The ready jobs of each queue that workers serve, by priority level and counted up to a limit, and the number of these
-- workers. Paused queues count as having no ready jobs. Queues without ready jobs have one row, without a level. The
-- last column is the sum of the first positions of all lanes: it changes when jobs are claimed, even if the count stays
-- at the limit.
with served as (
  select queue, count(*) as workers
  from posthouse.workers as w cross join unnest(w.queues) as queue
  where w.stopped_at is null and w.disabled_at is null and w.drain_asked_at is null
    and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
  group by queue
), known as materialized (
  select distinct l.lane, l.queue, l.priority
  from posthouse.lanes as l
  where l.queue in (select queue from served)
    and l.queue not in (select q.name from posthouse.queues as q where q.paused_at is not null)
), counted as (
  select k.queue,
    case when k.priority < %(normal)s then 'high' when k.priority = %(normal)s then 'normal' else 'low' end as level,
    least(sum(c.jobs), %(most)s)::integer as ready, sum(c.first)::text as front
  from known as k
  cross join lateral (
    select count(*) as jobs, min(position) as first from (
      select r.position from posthouse.ready as r
      where r.lane = k.lane order by r.position limit %(most)s) as counted_rows) as c
  where c.jobs > 0
  group by 1, 2
)
select s.queue, s.workers::integer, c.level, coalesce(c.ready, 0), coalesce(c.front, '')
from served as s left join counted as c using (queue)
