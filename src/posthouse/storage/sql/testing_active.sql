-- Running, ready and due jobs of these queues and kinds. A due job waits as long as another transaction locks it.
select (select count(*) from posthouse.ready where queue = any (%(queues)s) and kind = any (%(kinds)s))
     + (select count(*) from posthouse.running where queue = any (%(queues)s) and kind = any (%(kinds)s))
     + (select count(*) from posthouse.waiting where queue = any (%(queues)s) and kind = any (%(kinds)s)
          and blockers = 0 and due_at <= posthouse.now())
