-- The folders of videos that exist, or whose files are about to be deleted.
select u.slug from vlog.uploads as u
