-- Records the use of a key.
select posthouse.touch_key(%(prefix)s)
