-- A clip that is to be made; one that was asked for before stays as it was.
insert into vision.clips (video_id, clip_id, team_id, t_start, t_end, padding_ms)
values (%(video)s, %(clip)s, %(team)s, %(t_start)s, %(t_end)s, %(padding_ms)s)
on conflict (video_id, clip_id) do nothing
