-- Stores definitions, with their limits, of kinds that have none: a JSON array of announcements.
select posthouse.announce_missing(%s::jsonb)
