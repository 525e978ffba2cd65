-- Jobs of a tenant, newest first, from at most so many of each place and status, each read in order by its index. What
-- else is asked of them is asked of those that were read. From the places and not from their view, of which a plan
-- takes four times as long. Statuses are compared together with ids, not by themselves: otherwise the planner may read
-- the index of ids and leave out what has another tenant or status, one by one. What is ready has no index by tenant:
-- the few of a small one are found by its lanes, those of a large one by going through all, of which they are a good
-- part.
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
select j.*
from (
  (select * from (
    select
      @listed
        status := 'queued'
        place := 'ready'
        attempt_started_at := null::timestamptz
        finished_at := null::timestamptz
        worker_id := null::uuid
        blockers := 0
      @
    from posthouse.ready
    where 'queued' = any (%(statuses)s::text[]) and (select all_of_them from few) and id = any ((select ids from few)::uuid[])
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    limit %(most)s) as read
  where (%(kind)s::text is null or kind = %(kind)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
    and (%(source)s::text is null or source = %(source)s::text)
    and (%(created_after)s::timestamptz is null or queued_at >= %(created_after)s::timestamptz)
    and (%(created_before)s::timestamptz is null or queued_at < %(created_before)s::timestamptz)
  order by id desc
  limit %(limit)s::bigint + %(offset)s::bigint)
  union all
  (select * from (
    select
      @listed
        status := 'queued'
        place := 'ready'
        attempt_started_at := null::timestamptz
        finished_at := null::timestamptz
        worker_id := null::uuid
        blockers := 0
      @
    from posthouse.ready
    where 'queued' = any (%(statuses)s::text[]) and not (select all_of_them from few)
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    limit %(most)s) as read
  where (%(kind)s::text is null or kind = %(kind)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
    and (%(source)s::text is null or source = %(source)s::text)
    and (%(created_after)s::timestamptz is null or queued_at >= %(created_after)s::timestamptz)
    and (%(created_before)s::timestamptz is null or queued_at < %(created_before)s::timestamptz)
  order by id desc
  limit %(limit)s::bigint + %(offset)s::bigint)
  union all
  (select * from (
    select
      @listed
        status := 'queued'
        place := 'waiting'
        attempt_started_at := null::timestamptz
        finished_at := null::timestamptz
        worker_id := null::uuid
      @
    from posthouse.waiting
    where 'queued' = any (%(statuses)s::text[])
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    limit %(most)s) as read
  where (%(kind)s::text is null or kind = %(kind)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
    and (%(source)s::text is null or source = %(source)s::text)
    and (%(created_after)s::timestamptz is null or queued_at >= %(created_after)s::timestamptz)
    and (%(created_before)s::timestamptz is null or queued_at < %(created_before)s::timestamptz)
  order by id desc
  limit %(limit)s::bigint + %(offset)s::bigint)
  union all
  (select * from (
    select
      @listed
        status := 'running'
        place := 'running'
        finished_at := null::timestamptz
        blockers := 0
      @
    from posthouse.running
    where 'running' = any (%(statuses)s::text[])
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    limit %(most)s) as read
  where (%(kind)s::text is null or kind = %(kind)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
    and (%(source)s::text is null or source = %(source)s::text)
    and (%(created_after)s::timestamptz is null or queued_at >= %(created_after)s::timestamptz)
    and (%(created_before)s::timestamptz is null or queued_at < %(created_before)s::timestamptz)
  order by id desc
  limit %(limit)s::bigint + %(offset)s::bigint)
  union all
  select h.* from unnest(%(statuses)s::text[]) as s (wanted)
  cross join lateral (select * from (
    select
      @listed
        place := 'history'
        blockers := 0
      @
    from posthouse.history
    where tenant_id = %(tenant)s::text
      and (status, id) < (s.wanted, %(below)s::uuid) and (status, id) >= (s.wanted, %(lowest)s::uuid)
    order by status desc, id desc
    limit %(most)s) as read
  where (%(kind)s::text is null or kind = %(kind)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
    and (%(source)s::text is null or source = %(source)s::text)
    and (%(created_after)s::timestamptz is null or queued_at >= %(created_after)s::timestamptz)
    and (%(created_before)s::timestamptz is null or queued_at < %(created_before)s::timestamptz)
  order by status desc, id desc
  limit %(limit)s::bigint + %(offset)s::bigint) as h) as j
order by j.id desc
offset %(offset)s
limit %(limit)s
