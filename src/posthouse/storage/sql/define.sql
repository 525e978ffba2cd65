-- Announces what kinds of job there are; touches only those that changed.
select posthouse.announce(%s::jsonb)
