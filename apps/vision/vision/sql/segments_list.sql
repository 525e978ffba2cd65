-- The segments of a video in order, with their entities.
select s.id as segment_id, s.t_start, s.t_end, s.text, s.confidence, s.bounding_box, s.language,
  coalesce((
    select jsonb_agg(jsonb_build_object('type', e.entity_type, 'value', e.value, 'normalized', e.normalized_value) order by e.id)
    from vision.entities as e where e.segment_id = s.id), '[]') as entities
from vision.segments as s
where s.video_id = %(video)s
order by s.t_start, s.id
limit %(limit)s offset %(offset)s
