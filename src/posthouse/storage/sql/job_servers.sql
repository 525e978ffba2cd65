-- Live workers that serve this queue and kind, with what they have in hand.
select w.id, w.name, w.concurrency,
       (select count(*) from posthouse.running as r where r.worker_id = w.id)::integer as running
from posthouse.workers as w
where w.stopped_at is null
  and w.heartbeat_at > posthouse.now() - make_interval(secs => %(offline_after)s)
  and %(queue)s = any (w.queues) and %(kind)s = any (w.kinds)
order by w.name, w.id
