-- Enqueues many jobs from one JSON array, for this tenant, in a transaction of its own.
select ordinal, id, outcome, queued_at from posthouse.enqueue_for(%s, %s::jsonb)
