-- The texts of a video, in order.
select id, text from vision.segments where video_id = %(video)s order by t_start, id
