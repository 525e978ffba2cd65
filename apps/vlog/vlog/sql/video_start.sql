-- Store the new transcode and publish jobs of a video.
update vlog.uploads
set source = %(source)s, job_id = %(job_id)s, publish_id = %(publish_id)s,
  retranscode_metadata = %(retranscode_metadata)s::jsonb
where id = %(id)s
