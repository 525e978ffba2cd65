-- A clip with the status of its job.
select c.clip_id, c.video_id, c.t_start, c.t_end, c.padding_ms, c.s3_path,
  case when c.s3_path is not null then 'done' else coalesce(j.status, 'queued') end as status,
  j.error ->> 'message' as error
from vision.clips as c
left join lateral (
  select j.status, j.error from posthouse.jobs as j
  where j.tenant_id = c.team_id and j.subject = c.video_id::text and j.kind = 'vision.clip_generate'
    and j.payload ->> 'clip_id' = c.clip_id
  order by j.queued_at desc limit 1) as j on true
where c.video_id = %(video)s and c.clip_id = %(clip)s
