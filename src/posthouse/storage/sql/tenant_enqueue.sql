-- Enqueues as the tenant of this transaction.
select ordinal, id, outcome from posthouse.tenant_enqueue(%s::jsonb)
