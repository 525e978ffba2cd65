-- Delete the qualities that are not in the current output.
delete from vlog.video_qualities
where video_id = %(id)s and quality not in (select q ->> 'quality' from jsonb_array_elements(%(qualities)s::jsonb) as q)
