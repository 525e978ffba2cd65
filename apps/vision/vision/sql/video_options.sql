-- Set the reading options of a video.
update vision.videos set options = %(options)s where id = %(video)s
