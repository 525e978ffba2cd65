-- Before a video is read, again.
delete from vision.segments where video_id = %(video)s
