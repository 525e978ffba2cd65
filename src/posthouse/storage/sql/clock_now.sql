-- What time it is for the database.
select posthouse.now() as now
