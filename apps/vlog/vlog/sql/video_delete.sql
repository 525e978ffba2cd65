-- Deletes a video; its jobs end.
update vlog.uploads as u set deleted_at = posthouse.now()
where u.id = %(id)s
returning posthouse.cancel(u.job_id, p_actor => %(actor)s), posthouse.cancel(u.publish_id, p_actor => %(actor)s)
