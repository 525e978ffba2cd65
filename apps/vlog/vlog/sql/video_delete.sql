-- Delete a video, and cancel and erase its jobs.
update vlog.uploads as u set deleted_at = posthouse.now()
where u.id = %(id)s
returning posthouse.erase('vlog/' || u.id, u.tenant_id, p_actor => %(actor)s)
