-- The frames at which a text of a video begins.
select distinct t_start from vision.segments where video_id = %(video)s order by t_start
