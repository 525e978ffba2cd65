-- Mark a video as ready and searchable.
update vision.videos set status = 'ready', ready_at = now() where id = %(video)s
