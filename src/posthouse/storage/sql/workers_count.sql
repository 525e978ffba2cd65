-- How many workers are there.
select count(*) from posthouse.workers where stopped_at is null
