-- A video of this team, as a job needs to know it.
select duration_ms, options from vision.videos where id = %(video)s and team_id = %(team)s
