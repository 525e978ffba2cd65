-- A video of this team.
select duration_ms, options from vision.videos where id = %(video)s and team_id = %(team)s
