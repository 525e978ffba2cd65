-- Keys, sessions, the audit log, tenant isolation and idempotency keys.

-- name: key_find
-- The key with this prefix, if it is valid, and the seconds until it expires.
select
  prefix, hash, name, role, tenant_id, queues, expires_at,
  extract(epoch from expires_at - posthouse.now())::double precision as seconds_left
from posthouse.keys
where prefix = %(prefix)s and revoked_at is null and (expires_at is null or expires_at > posthouse.now())

-- name: keys_list
-- Keys, newest first.
select prefix, name, role, tenant_id, queues, may_announce, created_by, created_at, expires_at, revoked_at, last_used_at
from posthouse.keys
where %(tenant)s::text is null or tenant_id = %(tenant)s::text
order by created_at desc, prefix

-- name: session_find
-- The session with this hash, if it and its key are valid.
select s.name, s.role, s.tenant_id, s.expires_at
from posthouse.sessions as s
where s.hash = %(hash)s and s.expires_at > posthouse.now()
  and (s.key_prefix is null or exists (
    select from posthouse.keys as k
    where k.prefix = s.key_prefix and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > posthouse.now())))

-- name: session_delete
-- Ends a session.
delete from posthouse.sessions where hash = %(hash)s

-- name: link_secret
-- The secret of signed links.
select secret from posthouse.link_secret

-- name: audit_list
-- Audit entries, newest first, below the last id seen. The table is partitioned by month.
select id, at, actor, action, tenant_id, target, before, after
from posthouse.audit
where (%(actor)s::text is null or actor = %(actor)s::text)
  and (%(action)s::text is null or action = %(action)s::text or starts_with(action, %(action)s::text || '.'))
  and (%(target)s::text is null or target = %(target)s::text)
  and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and (%(since)s::timestamptz is null or at >= %(since)s::timestamptz)
  and (%(until)s::timestamptz is null or at < %(until)s::timestamptz)
  and (%(after)s::bigint is null or id < %(after)s::bigint)
  and (%(above)s::bigint is null or id > %(above)s::bigint)
order by id desc
limit %(limit)s

-- name: tenant_transaction
-- Restricts the rest of the transaction to the rows of one tenant (null: no restriction), and sets a statement timeout.
-- The default random_page_cost assumes spinning disks and makes the planner read all of ready for the few jobs of a
-- small tenant; recent rows are in memory, so it is capped at 1.1.
select
  set_config('statement_timeout', %(milliseconds)s::text, true),
  set_config('random_page_cost', least(current_setting('random_page_cost')::float8, 1.1)::text, true),
  case when %(tenant)s::text is not null then set_config('posthouse.tenant', %(tenant)s::text, true) end,
  case when %(tenant)s::text is not null then set_config('role', %(role)s::text, true) end
