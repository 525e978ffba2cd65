-- Expired leases whose jobs were not rescued.
select
  r.id, r.kind, r.worker_id, w.name as worker_name,
  extract(epoch from posthouse.now() - r.lease_expires_at)::double precision as expired_seconds
from posthouse.running as r
left join posthouse.workers as w on w.id = r.worker_id
where r.lease_expires_at < posthouse.now() - make_interval(secs => %(grace)s)
order by r.lease_expires_at
limit %(limit)s
