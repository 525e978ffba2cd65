-- Merge segments with the same text where each begins before the previous one ends. Spelling, box and language are those
-- of the most confident reading. Idempotent.
with marked as (
  select s.*, s.t_start > max(s.t_end) over earlier as apart
  from vision.segments as s where s.video_id = %(video)s
  window earlier as (partition by s.text_hash order by s.t_start, s.id rows between unbounded preceding and 1 preceding)
), numbered as (
  select m.*, count(*) filter (where m.apart) over (partition by m.text_hash order by m.t_start, m.id) as run
  from marked as m
), merged as (
  select min(n.id) as id, max(n.t_end) as t_end, max(n.confidence) as confidence,
    (array_agg(n.text order by n.confidence desc, n.id))[1] as text,
    (array_agg(n.bounding_box order by n.confidence desc, n.id))[1] as bounding_box,
    (array_agg(n.language order by n.confidence desc, n.id))[1] as language
  from numbered as n group by n.text_hash, n.run
), kept as (
  update vision.segments as s
  set t_end = m.t_end, confidence = m.confidence, text = m.text, bounding_box = m.bounding_box, language = m.language
  from merged as m where s.id = m.id
  returning s.id
)
delete from vision.segments as s
where s.video_id = %(video)s and s.id not in (select id from kept)
