-- Erases the jobs and events of a subject.
select e.id, e.tenant_id, e.subject, e.state, e.jobs, e.events, e.artifacts, e.requested_at, e.requested_by, e.ended_at
from jsonb_to_record(%s::jsonb) as a (subject text, tenant text, actor text)
cross join lateral posthouse.erase(a.subject, a.tenant, a.actor) as e
