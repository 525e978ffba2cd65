-- Where the stream and the poster are, and what the original is like.
update vision.videos set
  s3_proxy_path = %(proxy)s, s3_thumb_path = %(thumb)s, duration_ms = %(duration_ms)s, width = %(width)s, height = %(height)s
where id = %(video)s
