-- The alert that a job delivers, and its destination.
select d.destination, a.id, a.at, a.type, t.severity, a.tenant_id, a.subject, a.message, a.details, a.held_back
from posthouse.alert_deliveries as d
join posthouse.alerts as a on a.id = d.alert_id
join posthouse.alert_types as t on t.type = a.type
where d.job_id = %(job_id)s
