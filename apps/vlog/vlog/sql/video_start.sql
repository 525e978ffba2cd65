-- A video has a new job, and another that shows what comes of it.
update vlog.uploads
set source = %(source)s, job_id = %(job_id)s, publish_id = %(publish_id)s,
  retranscode_metadata = %(retranscode_metadata)s::jsonb
where id = %(id)s
