-- Each queue at a glance. What is ready is found and counted by its lanes, up to a number in each: a tenant's own are
-- few, however long those of others are.
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
  from posthouse.seen_workers() as w cross join unnest(w.queues) as queue
  where posthouse.is_at_work(w, %(offline_after)s)
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
