-- Note that the uploads of failed calls were deleted.
update calls.calls set upload_deleted_at = posthouse.now() where id = any (%(ids)s::uuid[])
