-- Takes events to match, each with the triggers that want it.
select event, context, triggers from posthouse.take_events(%(limit)s)
