-- The ready jobs of each queue that workers serve, by priority level and counted up to a limit, and the number of
-- these workers. Paused queues have none. Queues without ready jobs have one row, without a level. The last column is
-- the sum of the first positions of all lanes: it changes when jobs are claimed, also beyond the limit.
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
