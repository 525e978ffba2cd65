-- The key with this prefix, if it is good now.
select prefix, hash, name, role, tenant_id, queues, expires_at
from posthouse.keys
where prefix = %(prefix)s and revoked_at is null and (expires_at is null or expires_at > posthouse.now())
