-- Whether an event with this name is one that a trigger is for.
select posthouse.event_fits(%(pattern)s, %(name)s)
