-- The same when a stage begins: what was found before no longer counts.
update vision.videos set status = 'processing', ready_at = null
where id = %(video)s and team_id = %(team)s
returning duration_ms, options
