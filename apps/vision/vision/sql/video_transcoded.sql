-- Store the paths of stream and poster, and the properties of the original.
update vision.videos set
  s3_proxy_path = %(proxy)s, s3_thumb_path = %(thumb)s, duration_ms = %(duration_ms)s, width = %(width)s, height = %(height)s,
  warning = %(warning)s
where id = %(video)s
