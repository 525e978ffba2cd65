-- The current time of the database.
select posthouse.now() as now
