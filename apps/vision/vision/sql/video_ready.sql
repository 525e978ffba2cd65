-- The video can be found from now on.
update vision.videos set status = 'ready', ready_at = now() where id = %(video)s
