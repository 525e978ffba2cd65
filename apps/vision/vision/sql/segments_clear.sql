-- Delete the segments of a video before it is read again.
delete from vision.segments where video_id = %(video)s
