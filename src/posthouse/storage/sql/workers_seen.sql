-- Live workers, limited to what the caller may see; running counts the jobs that the caller can see.
select
  w.id, w.version, w.queues, w.offers, w.concurrency, w.started_at,
  (select count(*) from posthouse.running as r where r.worker_id = w.id)::integer as running,
  case when w.disabled_at is not null then 'disabled' when w.drain_asked_at is not null then 'draining'
    else 'online' end as status
from posthouse.seen_workers() as w
where posthouse.is_there(w, %(offline_after)s)
order by w.started_at, w.id
