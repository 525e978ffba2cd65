-- Segments that contain all words (or prefixes) and all entities.
select s.segment_id, s.video_id, s.title, s.t_start, s.t_end, s.text, s.confidence, s.bounding_box, s.language, s.terms
from vision.search as s
cross join lateral (
  select string_agg('''' || replace(w.word, '''', '''''') || ''':*', ' & ') from unnest(vision.words(%(words)s)) as w (word)
) as q (words)
where (q.words is null or s.words @@ q.words::tsquery)
  and s.terms @> %(terms)s::text[]
  and (%(video)s::uuid is null or s.video_id = %(video)s)
  and (%(team)s::text is null or s.team_id = %(team)s)
order by s.confidence desc, s.video_id, s.t_start
limit %(limit)s offset %(offset)s
