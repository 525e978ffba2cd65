-- The jobs of a video, newest first.
select j.id, j.job_type, j.status, j.payload, j.retry_count, j.max_retries, j.priority, j.depends_on, j.locked_by,
  j.locked_until, j.created_at, j.started_at, j.finished_at
from vision.jobs as j
where j.subject = %(video)s::text
order by j.created_at desc, j.id desc
limit %(limit)s offset %(offset)s
