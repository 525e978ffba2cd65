-- Delete the row of a deleted video, whose files are gone.
delete from vlog.uploads where id = %(id)s and deleted_at is not null
