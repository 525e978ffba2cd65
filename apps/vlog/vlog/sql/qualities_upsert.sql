-- Store the qualities of the current output.
insert into vlog.video_qualities (video_id, tenant_id, quality, width, height, bitrate, peak_bitrate, codecs, segments)
select u.id, u.tenant_id, q.quality, q.width, q.height, q.bitrate, q.peak_bitrate, q.codecs, q.segments
from vlog.uploads as u
cross join jsonb_to_recordset(%(qualities)s::jsonb) as q (
  quality text, width integer, height integer, bitrate integer, peak_bitrate integer, codecs text, segments integer)
where u.id = %(id)s
on conflict (video_id, quality) do update set
  width = excluded.width, height = excluded.height, bitrate = excluded.bitrate, peak_bitrate = excluded.peak_bitrate,
  codecs = excluded.codecs, segments = excluded.segments
