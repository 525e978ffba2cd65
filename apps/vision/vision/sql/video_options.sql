-- How a video is to be read from now on.
update vision.videos set options = %(options)s where id = %(video)s
