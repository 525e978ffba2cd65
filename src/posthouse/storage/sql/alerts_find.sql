-- Raises alerts from what was recorded since the last look; null while somebody else is looking.
select posthouse.find_alerts(%(types)s, %(failures)s, make_interval(secs => %(window)s), %(limit)s)
