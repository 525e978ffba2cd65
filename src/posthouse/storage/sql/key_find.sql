-- The key with this prefix, if it is valid, and the seconds until it expires.
select
  prefix, hash, name, role, tenant_id, queues, expires_at,
  extract(epoch from expires_at - posthouse.now())::double precision as seconds_left
from posthouse.keys
where prefix = %(prefix)s and revoked_at is null and (expires_at is null or expires_at > posthouse.now())
