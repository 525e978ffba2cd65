-- Records that this API server runs.
select posthouse.server_beat(%(id)s, %(hostname)s, %(pid)s)
