-- Whether a queue has a ready job for a worker with these capabilities.
select exists (
  select from posthouse.lanes as l
  where l.queue = %(queue)s and coalesce(l.requires <@ %(offers)s::text[], true)
    and exists (select from posthouse.ready as r where r.lane = l.lane))
