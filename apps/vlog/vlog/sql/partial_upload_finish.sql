-- Note the video that an upload became, for a repeated request.
update vlog.partial_uploads set changed_at = posthouse.now(), video_id = %(video_id)s where id = %(id)s
