-- Reports success; returns the ids whose lease was lost.
select posthouse.succeed(%s::uuid[], %s::uuid[], %s::text[]::jsonb[], %s::text[]::jsonb[])
