-- Changes whenever a definition changes, in any order of commits.
select concat_ws(' ', count(*), sum(version), max(updated_at)) from posthouse.definitions
