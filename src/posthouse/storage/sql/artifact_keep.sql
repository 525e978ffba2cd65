-- Records an artifact of a running job; returns whether its lease was valid.
select posthouse.keep_artifact(%(id)s, %(token)s, %(name)s, %(place)s, %(size)s, %(sha256)s, %(content_type)s)
