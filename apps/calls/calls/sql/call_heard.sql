-- How long it is, and on how many channels people speak.
update calls.calls set duration = %(duration)s, channels = %(channels)s where id = %(call)s
