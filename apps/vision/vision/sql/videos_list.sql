-- Videos, newest first, with the job that decides on their state: of the newest run, one that ended without success, else
-- the first that has not ended, else the last.
select v.id as video_id, v.team_id, v.owner_id, v.title,
  case when v.status <> 'ready' and j.rank = 0 then 'failed' else v.status end as status,
  j.kind as stage, j.status as stage_status, j.progress_percent, j.error ->> 'message' as error, v.warning,
  v.s3_original_path, v.s3_proxy_path, v.s3_thumb_path, v.duration_ms, v.width, v.height, v.options, v.created_at, v.ready_at
from vision.videos as v
left join lateral (
  select max(j.queued_at) as at from posthouse.jobs as j
  where j.tenant_id = v.team_id and j.subject = v.id::text and j.kind in ('vision.transcode', 'vision.sample')) as newest on true
left join lateral (
  select j.kind, j.status, j.error, j.progress_percent, r.rank
  from posthouse.jobs as j
  cross join lateral (
    select case when j.status in ('failed', 'dead_letter', 'canceled') then 0 when j.status = 'succeeded' then 2 else 1 end) as r (rank)
  where j.tenant_id = v.team_id and j.subject = v.id::text and j.kind <> 'vision.clip_generate'
    and (newest.at is null or j.queued_at >= newest.at)
  order by r.rank, case when r.rank = 1 then j.id end, j.queued_at desc, j.id desc limit 1) as j on true
where (%(video)s::uuid is null or v.id = %(video)s)
  and (%(team)s::text is null or v.team_id = %(team)s)
order by v.created_at desc, v.id
limit %(limit)s offset %(offset)s
