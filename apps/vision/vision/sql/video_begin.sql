-- Mark a video as processing when a stage begins; earlier results no longer count.
update vision.videos set status = 'processing', ready_at = null, indexed_at = null
where id = %(video)s and team_id = %(team)s
returning duration_ms, options
