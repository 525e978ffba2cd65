-- Jobs that could start, by queue, kind and what they require: since when the first waits, who could take it, and
-- whether they are paused or limited. Reads only the head of each lane; jobs are counted up to a limit.
with lane as materialized (
  select distinct on (l.lane) l.* from posthouse.lanes as l
), line as (
  select lane.queue, lane.kind, lane.requires, min(head.since) as since,
         least(sum(depth.jobs), %(limit)s)::integer as jobs, bool_and(held.limited) as limited
  from lane
  cross join lateral (
    select greatest(r.queued_at, r.scheduled_for) as since from posthouse.ready as r
    where r.lane = lane.lane order by r.position limit 1) as head
  cross join lateral (
    select count(*) as jobs
    from (select from posthouse.ready as r where r.lane = lane.lane limit %(limit)s) as r) as depth
  cross join lateral (
    select exists (
      select from posthouse.limits as l
      left join posthouse.limit_slots as s
        on s.slot = posthouse.slot_of(l, lane.queue, lane.kind, lane.tenant_id, lane.limit_key)
      where posthouse.slot_of(l, lane.queue, lane.kind, lane.tenant_id, lane.limit_key) is not null
        and (coalesce(s.in_use, 0) >= l.max_running
             or posthouse.refilled(l, s, posthouse.now()) < posthouse.cost_of(l, lane.kind))) as limited) as held
  group by lane.queue, lane.kind, lane.requires
)
select
  line.queue, line.kind, line.requires, line.jobs, line.since,
  extract(epoch from posthouse.now() - line.since)::double precision as waited_seconds,
  exists (select from posthouse.queues as q where q.name = line.queue and q.paused_at is not null) as paused,
  line.limited, served.workers, served.free,
  exists (select from posthouse.definitions as d where d.key = line.kind) as defined
from line
cross join lateral (
  select count(*)::integer as workers, coalesce(sum(greatest(w.concurrency - n.running, 0)), 0)::integer as free
  from posthouse.workers as w
  cross join lateral (
    select count(*) as running from posthouse.running as r where r.worker_id = w.id) as n
  where posthouse.is_at_work(w, %(offline_after)s)
    and line.queue = any (w.queues) and line.kind = any (w.kinds)
    and coalesce(posthouse.meets(line.requires, w.offers, w.code), true)) as served
order by line.since
