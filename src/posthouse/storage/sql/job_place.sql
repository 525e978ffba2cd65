-- The state of a job, to explain why it has not started.
select
  j.id, j.kind, j.queue, j.tenant_id, j.status, j.place, j.attempt_count, j.max_attempts,
  j.priority, j.requires, j.prefers, j.last_error, j.finished_at, j.worker_id,
  w.name as worker_name, j.attempt_started_at,
  j.lease_expires_at, j.cancel_requested_at, q.due_at, r.lane, r.position,
  (select l.turn from posthouse.lanes as l where l.lane = r.lane limit 1) as turn,
  p.paused_at, p.paused_by, exists (select from posthouse.definitions as d where d.key = j.kind) as defined,
  (select s.since from greatest(
     posthouse.first_mismatch(r.id, r.generation),
     posthouse.last_served(r.queue, r.kind, r.tenant_id, r.requires)) as s (since)
   where r.requires <> coalesce(posthouse.without_marks(r.requires), '{}') and isfinite(s.since)) as unserved_since,
  posthouse.now() as now
from posthouse.jobs as j
left join posthouse.ready as r on r.id = j.id
left join posthouse.waiting as q on q.id = j.id
left join posthouse.seen_workers() as w on w.id = j.worker_id
left join posthouse.queues as p on p.name = j.queue and p.paused_at is not null
where j.id = %(id)s and (%(tenant)s::text is null or j.tenant_id = %(tenant)s::text)
