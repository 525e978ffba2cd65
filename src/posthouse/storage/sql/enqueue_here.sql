-- Enqueues many jobs from one JSON array on the caller's connection: for its tenant, if it speaks for one.
select ordinal, id, outcome from posthouse.enqueue_here(%s::jsonb)
