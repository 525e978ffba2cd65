-- How many workers have each status; offline workers only if they left within the last hour.
select posthouse.worker_status(w, coalesce(r.running, 0), %(offline_after)s) as status, count(*)::integer as workers
from posthouse.workers as w
left join (select worker_id, count(*) as running from posthouse.running group by 1) as r on r.worker_id = w.id
where posthouse.is_there(w, %(offline_after)s)
  or greatest(w.stopped_at, w.heartbeat_at, w.started_at) > posthouse.now() - interval '1 hour'
group by 1
