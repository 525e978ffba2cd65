-- Live workers that serve this queue or have a handler for this kind, the capabilities they lack, and how many jobs they run.
select
  w.id, w.name, w.concurrency,
  (select count(*) from posthouse.running as r where r.worker_id = w.id)::integer as running,
  %(queue)s = any (w.queues) as serves_queue, %(kind)s = any (w.kinds) as knows_kind,
  array(select c from unnest(%(requires)s::text[]) as c where c not like '!%%' and c <> all (w.offers)) as lacks,
  '!' || w.code = any (%(requires)s::text[]) as outdated,
  %(prefers)s::text[] <@ w.offers as preferred,
  w.disabled_at, w.drain_asked_at
from posthouse.seen_workers() as w
where posthouse.is_there(w, %(offline_after)s)
  and (%(queue)s = any (w.queues) or %(kind)s = any (w.kinds))
order by w.name, w.id
