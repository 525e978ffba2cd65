-- Videos whose newest job waits or runs, oldest first, with the progress of their qualities.
select v.id, v.tenant_id, v.title, v.status, v.version::text, v.job_id::text, v.progress_percent, v.current_step, j.attempt_number, j.max_attempts,
  j.started_at, j.last_checkpoint, j.worker_id, j.processed_by_worker_name as worker_name,
  coalesce(q.qualities, '[]') as qualities
from vlog.videos as v
join vlog.transcoding_jobs as j on j.video_id = v.id
left join lateral (
  select jsonb_agg(jsonb_build_object('quality', q.quality, 'status', q.status, 'segments_total', q.segments_total,
    'segments_completed', q.segments_completed, 'progress_percent', q.progress_percent, 'error_message', q.error_message)
    order by q.ordinal) as qualities
  from vlog.quality_progress as q where q.video_id = v.id) as q on true
where v.version is distinct from v.job_id and v.status <> 'failed'
order by j.worker_id is null, v.id
limit 200
