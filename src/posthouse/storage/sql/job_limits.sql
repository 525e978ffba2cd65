-- The limits that keep a ready job from starting now: how full its slots are, and when a rate lets one more start.
select
  l.name, l.per, slot.slot, coalesce(s.in_use, 0) as in_use, l.max_running, l.rate, l.burst, now.tokens, cost.cost,
  coalesce(s.in_use, 0) >= l.max_running as full,
  case when now.tokens < cost.cost then (cost.cost - now.tokens) / l.rate end as seconds
from posthouse.ready as r
cross join posthouse.limits as l
cross join lateral posthouse.slot_of(l, r.queue, r.kind, r.tenant_id, r.limit_key) as slot (slot)
cross join lateral posthouse.cost_of(l, r.kind) as cost (cost)
left join posthouse.limit_slots as s on s.slot = slot.slot
cross join lateral (
  select case when s.slot is null then l.burst else posthouse.refilled(l, s, posthouse.now()) end) as now (tokens)
where r.id = %(id)s and slot.slot is not null
  and (coalesce(s.in_use, 0) >= l.max_running or now.tokens < cost.cost)
order by l.name
