-- Whether a job of a queue is ready for a worker that offers these.
select exists (
  select from posthouse.lanes as l
  where l.queue = %(queue)s and coalesce(l.requires <@ %(offers)s::text[], true)
    and exists (select from posthouse.ready as r where r.lane = l.lane))
