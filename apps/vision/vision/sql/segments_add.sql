-- Insert the texts of some frames; the owner is that of the video.
insert into vision.segments (
  video_id, team_id, owner_id, t_start, t_end, text, normalized_text, text_hash, confidence, bounding_box, language)
select v.id, v.team_id, v.owner_id, r.t_start, r.t_end, r.text, r.normalized_text, r.text_hash, r.confidence,
  r.bounding_box, r.language
from jsonb_to_recordset(%(regions)s::jsonb) as r (
  t_start integer, t_end integer, text text, normalized_text text, text_hash text, confidence real, bounding_box jsonb,
  language text)
join vision.videos as v on v.id = %(video)s
