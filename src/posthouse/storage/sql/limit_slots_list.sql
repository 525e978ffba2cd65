-- The slots of limits, or of one: the fullest first. A slot is named by its limit, tenant and key.
select
  l.name as limit_name, nullif(split_part(s.slot, E'\x1f', 2), '') as tenant_id,
  nullif(split_part(s.slot, E'\x1f', 3), '') as key, s.in_use, l.max_running, l.rate, l.burst,
  posthouse.refilled(l, s, posthouse.now()) as tokens
from posthouse.limit_slots as s
join posthouse.limits as l on l.name = s.limit_name
where %(name)s::text is null or l.name = %(name)s::text
order by l.name, s.in_use desc, tokens, s.slot
limit %(limit)s
