-- The last job read for a page of a tenant's jobs, if the search stopped early: the highest of the last ids read.
with few as materialized (
  select coalesce(array_agg(f.id), '{}') as ids, count(*) <= %(few)s as all_of_them
  from (
    select r.id
    from (select distinct lane from posthouse.lanes
          where tenant_id = %(tenant)s::text and 'queued' = any (%(statuses)s::text[])) as l
    cross join lateral (
      select q.id from posthouse.ready as q where q.lane = l.lane order by q.position limit %(few)s + 1) as r
    limit %(few)s + 1) as f
)
select h.id
from (
  (select id from posthouse.ready
    where 'queued' = any (%(statuses)s::text[]) and not (select all_of_them from few)
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    offset %(most)s::bigint - 1
    limit 1)
  union all
  (select id from posthouse.waiting
    where 'queued' = any (%(statuses)s::text[])
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    offset %(most)s::bigint - 1
    limit 1)
  union all
  (select id from posthouse.running
    where 'running' = any (%(statuses)s::text[])
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    offset %(most)s::bigint - 1
    limit 1)
  union all
  select h.* from unnest(%(statuses)s::text[]) as s (wanted)
  cross join lateral (select id from posthouse.history
    where tenant_id = %(tenant)s::text
      and (status, id) < (s.wanted, %(below)s::uuid) and (status, id) >= (s.wanted, %(lowest)s::uuid)
    order by status desc, id desc
    offset %(most)s::bigint - 1
    limit 1) as h) as h
order by h.id desc
limit 1
