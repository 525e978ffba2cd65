select ordinal, id, outcome from posthouse.tenant_enqueue(%s::jsonb)
