-- Limits, or one of them, and how full they are: over all of its slots, and the fullest of them.
select
  l.name, l.kinds, l.queues, l.tenants, l.per, l.max_running, l.rate, l.burst, l.weights, l.origin, l.updated_at,
  n.in_use, n.slots, n.fullest, n.full_slots,
  case when l.rate is not null then coalesce(n.tokens, l.burst) end as tokens
from posthouse.limits as l
cross join lateral (
  select coalesce(sum(s.in_use), 0)::integer as in_use, count(*)::integer as slots,
         coalesce(max(s.in_use), 0)::integer as fullest,
         (count(*) filter (where s.in_use >= l.max_running
            or posthouse.refilled(l, s, posthouse.now()) < 1))::integer as full_slots,
         min(posthouse.refilled(l, s, posthouse.now())) as tokens
  from posthouse.limit_slots as s where s.limit_name = l.name) as n
where %(name)s::text is null or l.name = %(name)s::text
order by l.name
