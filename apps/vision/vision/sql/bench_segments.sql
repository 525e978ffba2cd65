-- Segments of a video with four of 20,000 words each; every tenth text has the word "common".
insert into vision.segments (
  video_id, team_id, owner_id, t_start, t_end, text, normalized_text, text_hash, confidence, bounding_box, language)
select %(video)s, %(team)s, 'bench', n * 100, n * 100 + 100, w.text, w.text, md5(w.text), 0.9, '{}', 'eng'
from generate_series(1, %(count)s) as n
cross join lateral (
  select string_agg('word' || floor(random() * 20000)::integer, ' ') || case when n %% 10 = 0 then ' common' else '' end as text
  from generate_series(1, 4 + 0 * n)) as w
