-- The time by which things are recorded, and that by which ids are made.
select posthouse.now(), clock_timestamp()
