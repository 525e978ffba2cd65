-- Make the output of this job the current one, if it is still the newest job.
update vlog.uploads
set version = %(version)s, duration = %(duration)s, width = %(width)s, height = %(height)s,
  has_thumbnail = %(has_thumbnail)s,
  published_at = posthouse.now(), retranscode_metadata = null
where id = %(id)s and job_id = %(version)s and deleted_at is null
returning id
