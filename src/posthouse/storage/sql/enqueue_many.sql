-- Enqueues many jobs from one JSON array.
select ordinal, id, outcome from posthouse.enqueue_many(%s::jsonb)
