-- Ids of the unfinished uploads.
select r.id::text from vlog.partial_uploads as r
