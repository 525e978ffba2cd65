-- Workers and what they are doing: those that are there, and those that left within a time.
select
  w.id, w.name, w.hostname, w.pid, w.version, w.queues, w.kinds, w.concurrency, w.capabilities, w.offers, w.metadata,
  n.running,
  posthouse.worker_status(w, n.running, %(offline_after)s) as status,
  w.started_at, w.heartbeat_at, w.stopped_at, w.disabled_at, w.drain_asked_at,
  extract(epoch from posthouse.now() - w.heartbeat_at)::double precision as heartbeat_seconds,
  not alive.alive and (w.stopped_at is null or w.missing_since is not null) as died,
  array(select jsonb_build_object('id', r.id, 'kind', r.kind, 'since', r.attempt_started_at)
        from posthouse.running as r where r.worker_id = w.id
        order by r.attempt_started_at, r.id limit %(jobs)s) as jobs
from posthouse.workers as w
cross join lateral (select posthouse.is_there(w, %(offline_after)s)) as alive (alive)
cross join lateral (
  select count(*)::integer from posthouse.running as r where r.worker_id = w.id) as n (running)
where alive.alive
  or %(offline_within)s::double precision is null
  or greatest(w.stopped_at, w.heartbeat_at, w.started_at)
     > posthouse.now() - make_interval(secs => %(offline_within)s::double precision)
order by not alive.alive, w.name, w.started_at desc
