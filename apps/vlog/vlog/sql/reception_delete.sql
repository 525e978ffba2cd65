-- Delete an upload in parts.
delete from vlog.receptions where id = %(id)s returning id::text
