-- Keys, newest first.
select prefix, name, role, tenant_id, queues, may_announce, created_by, created_at, expires_at, revoked_at, last_used_at
from posthouse.keys
where %(tenant)s::text is null or tenant_id = %(tenant)s::text
order by created_at desc, prefix
