-- Segments that contain all words (or prefixes) and all entities, best first.
select * from vision.find_segments(%(words)s, %(terms)s, %(team)s, %(video)s, %(limit)s, %(offset)s)
