-- Videos, newest first, with their newest job. If that job ended without success, the video has failed.
select v.id as video_id, v.team_id, v.owner_id, v.title,
  case when v.status <> 'ready' and j.status in ('failed', 'dead_letter', 'canceled') then 'failed' else v.status end as status,
  j.kind as stage, j.status as stage_status, j.error ->> 'message' as error,
  v.s3_original_path, v.s3_proxy_path, v.s3_thumb_path, v.duration_ms, v.width, v.height, v.options, v.created_at, v.ready_at
from vision.videos as v
left join lateral (
  select j.kind, j.status, j.error from posthouse.jobs as j
  where j.tenant_id = v.team_id and j.subject = v.id::text and j.kind <> 'vision.clip_generate'
  order by j.queued_at desc limit 1) as j on true
where (%(video)s::uuid is null or v.id = %(video)s)
  and (%(team)s::text is null or v.team_id = %(team)s)
order by v.created_at desc, v.id
limit %(limit)s offset %(offset)s
