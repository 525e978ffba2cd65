-- Pauses a queue; false if it is paused already.
select posthouse.pause_queue(%(name)s, %(actor)s)
