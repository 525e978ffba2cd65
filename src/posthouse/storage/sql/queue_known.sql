-- Whether any job, worker or definition uses a queue.
select exists (select from posthouse.lanes where queue = %(name)s)
  or exists (select from posthouse.waiting where queue = %(name)s)
  or exists (select from posthouse.workers where %(name)s = any (queues))
  or exists (select from posthouse.definitions where queue = %(name)s)
