-- Queues: lists, counts, pausing.

-- name: queue_counts
-- Queued and running jobs by queue, or by tenant and queue, and since when the oldest ready job could have started. All
-- overviews read it: CLI, console, metrics, health and the event stream. tenant and queue restrict it.
-- With `most`, ready jobs are found by their lanes and counted up to that number in each: a tenant's own lanes are few, no
-- matter how long those of others are. Scheduled and blocked jobs are then counted up to `most` together. Without it, all
-- jobs are read once, which takes a third of the time of counting them all by lane (48 instead of 144 ms for 200,000).
--
-- Three statements count for themselves, because they mean something else: jobs_summary stops at a number of jobs in all
-- lanes together and counts ended jobs too, dispatch_ready counts by level of priority, and doctor_waiting counts by kind
-- and required capabilities.
with mine as materialized (
  select lane, min(queue) as queue, case when %(by_tenant)s then min(tenant_id) else '' end as tenant_id
  from posthouse.lanes
  where %(most)s::bigint is not null
    and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
  group by lane
), ready as (
  select m.tenant_id, m.queue, sum(c.jobs)::bigint as ready, min(h.since) as oldest_ready_at
  from mine as m
  cross join lateral (
    select count(*) as jobs from (
      select from posthouse.ready as r where r.lane = m.lane limit %(most)s) as counted) as c
  left join lateral (
    select greatest(r.queued_at, r.scheduled_for) as since
    from posthouse.ready as r where r.lane = m.lane order by r.position limit 1) as h on true
  where c.jobs > 0
  group by 1, 2
  union all
  select case when %(by_tenant)s then tenant_id else '' end, queue, count(*), min(greatest(queued_at, scheduled_for))
  from posthouse.ready
  where %(most)s::bigint is null
    and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
  group by 1, 2
), waiting as (
  select case when %(by_tenant)s then w.tenant_id else '' end as tenant_id, w.queue,
         count(*) filter (where w.blockers = 0) as scheduled, count(*) filter (where w.blockers > 0) as blocked,
         min(w.due_at) filter (where w.blockers = 0) as next_due_at
  from (select w.tenant_id, w.queue, w.blockers, w.due_at from posthouse.waiting as w
        where (%(tenant)s::text is null or w.tenant_id = %(tenant)s::text)
          and (%(queue)s::text is null or w.queue = %(queue)s::text) limit %(most)s) as w
  group by 1, 2
), running as (
  select case when %(by_tenant)s then tenant_id else '' end as tenant_id, queue, count(*) as running
  from posthouse.running
  where (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
  group by 1, 2
)
select
  tenant_id, queue, coalesce(ready, 0) as ready, coalesce(scheduled, 0) as scheduled, coalesce(blocked, 0) as blocked,
  coalesce(running, 0) as running, oldest_ready_at, next_due_at,
  extract(epoch from posthouse.now() - oldest_ready_at)::double precision as oldest_ready_seconds
from ready
full join waiting using (tenant_id, queue)
full join running using (tenant_id, queue)
order by tenant_id, queue

-- name: queues_known
-- The queues that workers serve, that definitions name or that are paused: how many workers serve each, and who paused it.
with served as (
  select queue, count(*) as workers
  from posthouse.visible_workers() as w cross join unnest(w.queues) as queue
  where posthouse.accepts_jobs(w, %(offline_after)s)
  group by queue
), known as (
  select queue from served union select queue from posthouse.definitions
  union select name from posthouse.queues where paused_at is not null
)
select queue as name, coalesce(workers, 0) as workers, q.paused_at, q.paused_by
from known
left join served using (queue)
left join posthouse.queues as q on q.name = queue
where %(queue)s::text is null or queue = %(queue)s::text

-- name: queue_exists
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
  where w.stopped_at is null and w.disabled_at is null and w.drain_requested_at is null
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
