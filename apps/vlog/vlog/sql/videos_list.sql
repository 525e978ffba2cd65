-- Videos, newest first, or the one with the given id.
select v.*, t.content as transcription, coalesce(q.qualities, '[]') as qualities
from vlog.videos as v
left join vlog.transcriptions as t on t.video_id = v.id
left join lateral (
  select jsonb_agg(jsonb_build_object('quality', q.quality, 'width', q.width, 'height', q.height, 'bitrate', q.bitrate,
    'peak_bitrate', q.peak_bitrate, 'codecs', q.codecs, 'segments', q.segments) order by q.height desc) as qualities
  from vlog.video_qualities as q where q.video_id = v.id) as q on true
where (%(id)s::bigint is null or v.id = %(id)s) and (%(before)s::bigint is null or v.id < %(before)s)
  and (%(title)s::text is null or strpos(lower(v.title), lower(%(title)s)) > 0)
order by v.id desc
limit %(limit)s
