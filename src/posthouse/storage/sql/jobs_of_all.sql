-- Jobs of all tenants, newest first, from at most so many that are read in the order of their ids.
select * from (
  select
    @listed@
  from posthouse.jobs
  where id >= %(lowest)s::uuid and id < %(below)s::uuid
  order by id desc
  limit %(most)s) as read
where (%(statuses)s::text[] is null or status = any (%(statuses)s::text[]))
  and (%(kind)s::text is null or kind = %(kind)s::text)
  and (%(queue)s::text is null or queue = %(queue)s::text)
  and (%(source)s::text is null or source = %(source)s::text)
  and (%(created_after)s::timestamptz is null or queued_at >= %(created_after)s::timestamptz)
  and (%(created_before)s::timestamptz is null or queued_at < %(created_before)s::timestamptz)
order by id desc
offset %(offset)s
limit %(limit)s
