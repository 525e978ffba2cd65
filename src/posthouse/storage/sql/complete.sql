-- Completes a job in its handler's transaction; returns whether the lease was valid.
select posthouse.complete(%s, %s, %s::text::jsonb, %s::text::jsonb)
