-- The newest migration applied.
select coalesce(max(number), 0) from posthouse.migrations
