-- Progress of the qualities of a video, largest first.
select q.quality, q.status, q.segments_total, q.segments_completed, q.progress_percent, q.started_at, q.completed_at,
  q.error_message, q.attempt
from vlog.quality_progress as q where q.video_id = %(id)s
order by q.ordinal
