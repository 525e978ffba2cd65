-- Jobs that could start, by queue and kind: since when the first waits, and who could take it. Reads only
-- the head of each lane; jobs are counted up to a limit.
with lane as materialized (
  select distinct on (l.lane) l.lane, l.queue, l.kind from posthouse.lanes as l
), line as (
  select lane.queue, lane.kind, min(head.since) as since, least(sum(depth.jobs), %(limit)s)::integer as jobs
  from lane
  cross join lateral (
    select greatest(r.queued_at, r.scheduled_for) as since from posthouse.ready as r
    where r.lane = lane.lane order by r.position limit 1) as head
  cross join lateral (
    select count(*) as jobs
    from (select from posthouse.ready as r where r.lane = lane.lane limit %(limit)s) as r) as depth
  group by lane.queue, lane.kind
)
select
  line.queue, line.kind, line.jobs,
  extract(epoch from posthouse.now() - line.since)::double precision as waited_seconds,
  served.workers, served.free
from line
cross join lateral (
  select count(*)::integer as workers, coalesce(sum(greatest(w.concurrency - n.running, 0)), 0)::integer as free
  from posthouse.workers as w
  cross join lateral (
    select count(*) as running from posthouse.running as r where r.worker_id = w.id) as n
  where w.stopped_at is null
    and w.heartbeat_at > posthouse.now() - make_interval(secs => %(offline_after)s)
    and line.queue = any (w.queues) and line.kind = any (w.kinds)) as served
order by line.since
