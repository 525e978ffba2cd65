-- Ids of the unfinished uploads.
select r.id::text from vlog.receptions as r
