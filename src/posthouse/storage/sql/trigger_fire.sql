-- Creates the job of a trigger now; no outcome if the trigger does not exist.
select outcome, reason, job_id
from posthouse.fire_trigger(%(id)s, %(request)s::jsonb, %(nominal)s, %(event)s::jsonb, %(tenant)s, %(actor)s)
