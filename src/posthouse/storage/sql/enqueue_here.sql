-- Enqueues many jobs from one JSON array on the caller's connection, for the tenant of its transaction if it has one.
select ordinal, id, outcome from posthouse.enqueue_here(%s::jsonb)
