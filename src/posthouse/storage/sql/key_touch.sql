-- Notes that a key was used.
select posthouse.touch_key(%(prefix)s)
