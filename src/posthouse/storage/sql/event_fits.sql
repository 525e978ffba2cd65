-- Whether a trigger's pattern matches an event name.
select posthouse.event_fits(%(pattern)s, %(name)s)
