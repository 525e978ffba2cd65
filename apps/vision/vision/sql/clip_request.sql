-- Insert a requested clip; an existing one is unchanged.
insert into vision.clips (video_id, clip_id, team_id, t_start, t_end, padding_ms)
values (%(video)s, %(clip)s, %(team)s, %(t_start)s, %(t_end)s, %(padding_ms)s)
on conflict (video_id, clip_id) do nothing
