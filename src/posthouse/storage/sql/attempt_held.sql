-- A running attempt, by its token and the API key of its worker.
select r.id, r.kind, r.tenant_id, r.attempt_count as attempt, r.max_attempts, r.crashes, r.snoozes, r.worker_id,
       coalesce(r.retry, d.retry) as retry,
       coalesce(d.followup_queues, '{}') as followup_queues, extract(epoch from posthouse.now() - r.started_at)::float8 as age
from posthouse.running as r
join posthouse.workers as w on w.id = r.worker_id and w.key = %(key)s
left join posthouse.definitions as d on d.key = r.kind
where r.id = %(id)s and r.token = %(token)s
