-- Calls, newest first, with their current job.
select
  c.id as call_id, c.org_id, c.title, c.duration, c.channels, c.created_by, c.created_at, c.upload_deleted_at,
  case
    when j.status = 'canceled' then 'canceled'
    when j.status in ('failed', 'dead_letter') then 'failed'
    when j.status in ('queued', 'running') then 'processing'
    when a.is_low_confidence then 'low_confidence'
    when a.call_id is not null then 'done'
    else 'failed'
  end as status,
  a.confidence, split_part(j.kind, '.', 2) as stage, j.status as stage_status, p.progress_percent, j.job_id,
  case when j.status <> 'succeeded' then coalesce(j.error ->> 'message', j.last_error) end as error, a.analysed_at
from calls.calls as c
left join calls.analyses as a on a.call_id = c.id
left join lateral (
  select j.id as job_id, j.kind, j.status, j.error, j.last_error from posthouse.jobs as j
  where j.tenant_id = c.org_id and j.subject = c.id::text and j.kind <> 'calls.recognize'
  order by j.queued_at desc, j.id desc limit 1) as j on true
left join lateral (  -- a poll has no progress of its own, but the local recognition has
  select p.progress_percent from posthouse.jobs as p
  where p.tenant_id = c.org_id and p.subject = c.id::text and p.status = 'running' and p.progress_percent is not null
  order by p.queued_at desc limit 1) as p on j.status in ('queued', 'running')
where (%(call)s::uuid is null or c.id = %(call)s)
  and (%(org)s::text is null or c.org_id = %(org)s)
order by c.created_at desc, c.id
limit %(limit)s offset %(offset)s
