-- Works with code from: 0.1.0
-- Required by this code: yes

-- API keys. A plain hash is enough for a secret of 256 random bits, which cannot be guessed.
create table posthouse.keys (
  id uuid primary key,
  prefix text not null unique,
  hash bytea not null,
  name text not null,
  role text not null,
  tenant_id text,
  queues text[],
  may_announce boolean not null default false,  -- may store the definitions, limits and triggers of its worker's code
  created_by text not null,
  created_at timestamptz not null default posthouse.now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  constraint keys_role_known check (
    role in ('super-admin', 'tenant-admin', 'tenant-viewer', 'event-emitter', 'worker')),
  constraint keys_have_a_tenant check (tenant_id is not null or role in ('super-admin', 'worker')),
  constraint keys_queues_of_workers check (queues is null or role = 'worker'),
  -- Definitions are shared by all tenants, so no key of a tenant writes them.
  constraint keys_announce_for_all_tenants check (not may_announce or (role = 'worker' and tenant_id is null))
);

-- Console logins: a random cookie, stored as a hash, instead of the credential itself. A login that was made with a key
-- ends with that key.
create table posthouse.sessions (
  hash bytea primary key,
  key_prefix text references posthouse.keys (prefix) on delete cascade,
  name text not null,
  role text not null,
  tenant_id text,
  created_at timestamptz not null default posthouse.now(),
  expires_at timestamptz not null
);
create index sessions_expiry on posthouse.sessions (expires_at);

-- The secret that signs links, shared by all servers of an installation.
create table posthouse.link_secret (
  one boolean primary key default true check (one),
  secret bytea not null
);
insert into posthouse.link_secret (secret)
values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));  -- 244 random bits

-- Responses to requests with an idempotency key (Idempotency-Key), kept for a day: a repeated request gets the same
-- response. Written in the transaction of the request. tenant_id is empty for requests without a tenant.
create table posthouse.idempotency_keys (
  tenant_id text not null,
  key text not null,
  request_digest bytea not null,
  at timestamptz not null,
  response_status integer,   -- null: the request is in progress
  response_body text,
  primary key (tenant_id, key)
);
create index idempotency_keys_at on posthouse.idempotency_keys (at);

-- Applications: the SQL files that create their tables, and which version of each was run last.
create table posthouse.app_schemas (
  name text primary key,
  digest text not null,
  applied_at timestamptz not null default posthouse.now()
);

create table posthouse.erasures (
  id uuid primary key default posthouse.new_id(),
  tenant_id text not null,
  subject text not null,
  state text not null generated always as (case when ended_at is null then 'erasing' else 'erased' end) stored,
  jobs integer not null default 0,
  events integer not null default 0,
  artifacts integer not null default 0,
  requested_at timestamptz not null,
  requested_by text not null,
  ended_at timestamptz
);
create unique index erasures_open on posthouse.erasures (tenant_id, subject) where ended_at is null;
create index erasures_ended on posthouse.erasures (ended_at);

insert into posthouse.retention_rules (relation, category, time_column) values ('erasures', 'audit', 'ended_at');
