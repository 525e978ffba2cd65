-- Remove the rows of deleted videos whose files are gone.
delete from vision.deleted_videos where id = any (%(ids)s::uuid[])
