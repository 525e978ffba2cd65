-- An event of a tenant, as it was emitted.
select e.id, e.at, e.tenant_id, e.name, e.context, e.subject, e.correlation_id
from posthouse.events as e where e.id = %(id)s and e.tenant_id = %(tenant)s
limit 1
