-- Store duration and number of channels.
update calls.calls set duration = %(duration)s, channels = %(channels)s where id = %(call)s
