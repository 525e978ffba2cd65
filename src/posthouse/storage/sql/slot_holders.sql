-- The running jobs in a slot of a limit, oldest start first.
select r.id, r.kind, w.name as worker, r.attempt_started_at as since
from posthouse.running as r
left join posthouse.seen_workers() as w on w.id = r.worker_id
where r.slots @> array[%(slot)s::text]
order by r.attempt_started_at, r.id
limit %(limit)s
