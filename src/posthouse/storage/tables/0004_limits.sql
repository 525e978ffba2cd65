-- Works with code from: 0.1.0
-- Required by this code: yes

create table posthouse.queues (
  name text primary key,
  paused_at timestamptz,
  paused_by text
);

create table posthouse.tenants (
  id text primary key,
  label text not null default '',
  weight double precision not null default 1 check (weight > 0),  -- its share of the workers, relative to other tenants
  retention_days double precision check (retention_days >= 1),    -- null: as in the general setting
  created_at timestamptz not null default posthouse.now()
);

create table posthouse.limits (
  name text primary key,
  kinds text[],
  queues text[],
  tenants text[],
  per text not null default 'all',
  max_running integer,
  rate double precision,                -- tokens per second
  burst double precision,               -- the most tokens that accumulate
  weights jsonb not null default '{}',  -- kind -> tokens per start; 1 if not listed
  origin text not null default 'operator',
  updated_at timestamptz not null,
  constraint a_limit_counts_all_or_per_tenant_or_per_key check (per in ('all', 'tenant', 'key')),
  constraint a_limit_limits_something check (max_running is not null or rate is not null),
  constraint max_running_is_0_or_more check (max_running >= 0),
  constraint a_rate_is_more_than_0 check (rate > 0 and burst >= 1),
  constraint a_rate_has_a_burst check ((rate is null) = (burst is null)),
  constraint origin_is_code_or_operator check (origin in ('code', 'operator'))
);

create table posthouse.limit_slots (
  slot text primary key,
  limit_name text not null,
  in_use integer not null default 0 check (in_use >= 0),
  tokens double precision,
  refilled_at timestamptz
) with (fillfactor = 50);  -- updated very often; the free space keeps updates within the page
create index limit_slots_limit on posthouse.limit_slots (limit_name);
