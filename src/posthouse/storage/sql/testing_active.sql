-- Jobs of these queues and kinds that could run now, and those that run.
select (select count(*) from posthouse.ready where queue = any (%s) and kind = any (%s))
     + (select count(*) from posthouse.running)
