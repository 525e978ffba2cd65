-- Keeps a file of a running job; says whether its lease was live.
select posthouse.keep_artifact(%(id)s, %(token)s, %(name)s, %(place)s, %(size)s, %(sha256)s, %(content_type)s)
