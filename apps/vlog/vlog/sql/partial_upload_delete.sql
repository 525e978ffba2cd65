-- Delete an upload in parts.
delete from vlog.partial_uploads where id = %(id)s returning id::text
