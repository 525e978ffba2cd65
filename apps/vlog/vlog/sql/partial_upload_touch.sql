-- Note that an upload goes on.
update vlog.partial_uploads set changed_at = posthouse.now() where id = %(id)s
returning id::text, title, suffix, size, video_id
