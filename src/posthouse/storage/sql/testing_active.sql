-- Jobs of these queues and kinds that run or could run now.
select (select count(*) from posthouse.ready where queue = any (%(queues)s) and kind = any (%(kinds)s))
     + (select count(*) from posthouse.running where queue = any (%(queues)s) and kind = any (%(kinds)s))
