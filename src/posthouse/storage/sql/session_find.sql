-- The session with this hash, if it and its key are valid.
select s.name, s.role, s.tenant_id, s.expires_at
from posthouse.sessions as s
where s.hash = %(hash)s and s.expires_at > posthouse.now()
  and (s.key_prefix is null or exists (
    select from posthouse.keys as k
    where k.prefix = s.key_prefix and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > posthouse.now())))
