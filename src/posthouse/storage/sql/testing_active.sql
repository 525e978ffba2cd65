-- Jobs of these queues that run or could run now.
select (select count(*) from posthouse.ready where queue = any (%s))
     + (select count(*) from posthouse.running)
