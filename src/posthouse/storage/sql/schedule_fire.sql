-- Creates the due runs of a schedule unless another keeper has; returns counts by outcome.
select fired, skipped, errors
from posthouse.fire_schedule(%(trigger)s, %(version)s, %(expected)s, %(runs)s::jsonb, %(next)s)
