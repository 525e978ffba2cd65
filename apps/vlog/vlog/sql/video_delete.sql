-- Delete a video and the upload in parts that it was, and cancel and erase its jobs.
with upload as (delete from vlog.partial_uploads where video_id = %(id)s)
update vlog.uploads as u set deleted_at = posthouse.now()
where u.id = %(id)s
returning posthouse.erase('vlog/' || u.id, u.tenant_id, p_actor => %(actor)s)
