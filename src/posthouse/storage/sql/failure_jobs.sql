-- Ended jobs of a failure group, the latest first.
select h.id, h.status, h.queue, h.attempt_count, h.max_attempts, h.generation, h.subject, h.finished_at
from posthouse.history as h
where h.status <> 'succeeded' and h.error ->> 'fingerprint' = %(fingerprint)s and h.kind = %(kind)s
  and h.tenant_id = %(tenant)s
order by h.finished_at desc
limit %(limit)s
