-- Locks events to match, each with its matching triggers.
select event, context, triggers from posthouse.take_events(%(limit)s)
