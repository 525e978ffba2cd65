-- Completes a job inside its handler's own transaction; says whether that landed.
select posthouse.complete(%s, %s, %s::text::jsonb, %s::text::jsonb)
