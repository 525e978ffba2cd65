-- Announces the limits of kinds of job; what an operator set stays.
select posthouse.announce_limits(%s::jsonb)
