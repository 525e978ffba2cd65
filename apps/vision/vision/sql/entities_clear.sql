-- Delete the entities of a video before they are extracted again.
delete from vision.entities as e using vision.segments as s where s.id = e.segment_id and s.video_id = %(video)s
