-- Jobs with a correlation, newest first.
select @listed@
from posthouse.jobs
where correlation_id = %(correlation)s::text
  and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and (%(statuses)s::text[] is null or status = any (%(statuses)s::text[]))
  and (%(correlation)s::text is null or correlation_id = %(correlation)s::text)
  and (%(subject)s::text is null or subject = %(subject)s::text)
  and (%(kind)s::text is null or kind = %(kind)s::text)
  and (%(queue)s::text is null or queue = %(queue)s::text)
  and (%(source)s::text is null or source = %(source)s::text)
  and (%(created_after)s::timestamptz is null or queued_at >= %(created_after)s::timestamptz)
  and (%(created_before)s::timestamptz is null or queued_at < %(created_before)s::timestamptz)
  and id >= %(lowest)s::uuid and id < %(below)s::uuid
order by id desc
offset %(offset)s
limit %(limit)s
