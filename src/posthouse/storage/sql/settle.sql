-- Reports every other outcome; returns the ids whose lease was lost.
select posthouse.settle(
  %s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::double precision[], %s::text[]::jsonb[], %s::text[]::jsonb[])
