-- The changing state and load of each worker.
select w.id, w.name, w.hostname, posthouse.worker_status(w, coalesce(r.running, 0), %(offline_after)s) as status,
       coalesce(r.running, 0)::integer as running, w.concurrency, w.queues, w.disabled_at, w.drain_asked_at
from posthouse.workers as w
left join (select worker_id, count(*) as running from posthouse.running group by 1) as r on r.worker_id = w.id
where posthouse.is_there(w, %(offline_after)s)
  or greatest(w.stopped_at, w.heartbeat_at, w.started_at) > posthouse.now() - interval '1 hour'
