-- Store the transcription of a video.
insert into vlog.transcriptions (video_id, content)
select v.id, %(content)s from vlog.videos as v where v.id = %(id)s
on conflict (video_id) do update set content = excluded.content
returning video_id
