-- Enqueues many jobs from one JSON array, for the tenant of the transaction.
select ordinal, id, outcome, queued_at from posthouse.tenant_enqueue(%s::jsonb)
