-- What workers are called.
select id, name from posthouse.workers where id = any (%s)
