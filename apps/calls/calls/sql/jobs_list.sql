-- The jobs of a call, in order of creation.
select id, org_id, call_id, stage, status, payload, attempts, max_attempts, polls, available_at, locked_at, locked_by,
  last_error, created_at, updated_at
from calls.processing_jobs
where org_id = %(org)s and subject = %(call)s::text
order by created_at, id
