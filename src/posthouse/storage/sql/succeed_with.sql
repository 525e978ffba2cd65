-- Reports success with follow-up jobs; returns the ids whose lease was lost.
select posthouse.succeed_with(
  %s::uuid[], %s::uuid[], %s::text[]::jsonb[], p_outputs => %s::text[]::jsonb[], p_followups => %s::text[]::jsonb[])
