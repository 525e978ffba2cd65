-- The newest job of a video.
select j.* from vlog.transcoding_jobs as j where j.video_id = %(id)s
