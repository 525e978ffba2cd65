-- Delete a video with its texts and clips; cancel and erase its jobs. No row: the team has no such video.
select posthouse.erase(%(video)s::text, p_actor => %(actor)s) where vision.delete_video(%(video)s)
