-- Insert the entities of a video.
insert into vision.entities (segment_id, team_id, entity_type, value, normalized_value)
select s.id, s.team_id, f.type, f.value, f.normalized
from unnest(%(segments)s::bigint[], %(types)s::text[], %(values)s::text[], %(normalized)s::text[])
  as f (segment, type, value, normalized)
join vision.segments as s on s.id = f.segment
