-- Kinds of job, as their workers announced them, and how many live workers know each.
select
  d.key, d.description, d.queue, d.priority, d.max_attempts, d.timeout_seconds, d.schema, d.updated_at,
  (select count(*) from posthouse.workers as w
   where w.stopped_at is null and d.key = any (w.kinds)
     and w.heartbeat_at > posthouse.now() - make_interval(secs => %(offline_after)s)) as workers
from posthouse.definitions as d
order by d.key
