-- Workers and what they are doing: those that are there, and those that left within a time.
select
  w.id, w.name, w.hostname, w.pid, w.version, w.queues, w.kinds, w.concurrency, n.running,
  case
    when not alive.alive then 'offline'
    when n.running = 0 then 'idle'
    when n.running >= w.concurrency then 'busy'
    else 'active' end as status,
  w.started_at, w.heartbeat_at, w.stopped_at,
  not alive.alive and (w.stopped_at is null or w.missing_since is not null) as died
from posthouse.workers as w
cross join lateral (
  select w.stopped_at is null
    and w.heartbeat_at > posthouse.now() - make_interval(secs => %(offline_after)s)) as alive (alive)
cross join lateral (
  select count(*)::integer from posthouse.running as r where r.worker_id = w.id) as n (running)
where alive.alive
  or %(offline_within)s::double precision is null
  or greatest(w.stopped_at, w.heartbeat_at)
     > posthouse.now() - make_interval(secs => %(offline_within)s::double precision)
order by not alive.alive, w.name, w.started_at desc
