-- What handlers returned, of those of some jobs that have finished.
select id, result #>> '{}' from posthouse.history where id = any (%s)
