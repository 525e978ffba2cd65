-- Makes the runs of a schedule, if nobody else has; returns how many became what.
select fired, skipped, errors
from posthouse.fire_schedule(%(trigger)s, %(version)s, %(expected)s, %(runs)s::jsonb, %(next)s)
