-- Store the path of a clip.
insert into vision.clips (video_id, clip_id, team_id, t_start, t_end, padding_ms, s3_path)
values (%(video)s, %(clip)s, %(team)s, %(t_start)s, %(t_end)s, %(padding_ms)s, %(path)s)
on conflict (video_id, clip_id) do update set s3_path = excluded.s3_path
