-- The latest event of a tenant that matches a pattern, among a limited number of recent ones.
select e.id, e.at, e.tenant_id, e.name, e.context, e.subject, e.correlation_id
from (select * from posthouse.events as e where e.tenant_id = %(tenant)s order by e.at desc limit %(looked_at)s) as e
where posthouse.event_fits(%(pattern)s, e.name)
order by e.at desc
limit 1
