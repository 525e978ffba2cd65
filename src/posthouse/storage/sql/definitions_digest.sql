-- Changes whenever a definition does, in whatever order changes are committed.
select concat_ws(' ', count(*), sum(version), max(updated_at)) from posthouse.definitions
