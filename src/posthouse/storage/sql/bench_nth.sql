-- The job that so many others of its line stand at or before.
select id from posthouse.ready order by lane, position offset %s - 1 limit 1
