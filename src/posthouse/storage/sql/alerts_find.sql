-- Raises alerts from facts recorded since the last call; null while another keeper does so.
select posthouse.find_alerts(%(types)s, %(failures)s, make_interval(secs => %(window)s), %(limit)s)
