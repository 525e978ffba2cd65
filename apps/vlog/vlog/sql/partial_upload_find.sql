-- An upload in parts, locked, so that one request at a time finishes it.
select r.id::text, r.title, r.suffix, r.size, r.video_id from vlog.partial_uploads as r where r.id = %(id)s for update
