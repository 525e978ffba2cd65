-- Until when a job is reserved for preferred workers; null if it is not.
select head.scheduled_for + make_interval(secs => %(patience)s)
from posthouse.ready as r
cross join lateral (
  select h.scheduled_for from posthouse.ready as h where h.lane = r.lane order by h.position limit 1) as head
where r.id = %(id)s and r.prefers is not null
  and posthouse.left_to_others(
    r.lane, r.queue, r.kind, r.prefers, posthouse.now(), make_interval(secs => %(patience)s))
