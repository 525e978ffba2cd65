-- Works with code from: 0.1.0
-- Required by this code: yes

-- The types of alerts, and counts of each: raised = found, suppressed = reported only as a number in another alert,
-- sent and failed = messages that a destination accepted or not. Updated by the keeper that holds the cursor, so that
-- raising an alert never waits.
create table posthouse.alert_types (
  type text primary key,
  severity text not null check (severity in ('info', 'warning', 'error')),
  raised bigint not null default 0,
  suppressed bigint not null default 0,
  sent bigint not null default 0,
  failed bigint not null default 0
);

insert into posthouse.alert_types (type, severity) values
  ('stale_job_recovered', 'warning'),
  ('job_max_retries_exceeded', 'error'),
  ('job_failed_pattern', 'error'),
  ('worker_startup', 'info'),
  ('worker_shutdown', 'info'),
  ('queue_stuck', 'error'),
  ('trigger_error', 'error'),
  ('horizon_pinned', 'warning');

create table posthouse.alerts (
  id uuid primary key default posthouse.new_id(),
  at timestamptz not null,              -- when it happened
  type text not null references posthouse.alert_types,
  tenant_id text,                       -- null: not about a tenant
  subject text not null,                -- with type and tenant, the key of the cool-down
  message text not null,
  details jsonb not null default '{}',
  dedupe_key text not null unique,
  state text not null default 'new' check (state in ('new', 'suppressed', 'posted', 'disabled')),
  posted_at timestamptz,
  suppressed_count integer not null default 0, -- how many suppressed alerts it stands for
  constraint alerts_posted_at_fits_state check ((state = 'posted') = (posted_at is not null))
);
create index alerts_at on posthouse.alerts (at);
create index alerts_subject on posthouse.alerts (type, subject, at);
create index alerts_new on posthouse.alerts (at) where state = 'new';
create index alerts_posted on posthouse.alerts (posted_at) where state = 'posted';

-- The cool-down of a type, tenant and subject: until when no alert of it is posted, and how many were suppressed since.
-- A small table, so that the alerts of an alert storm are counted once and not read again on each search.
create table posthouse.alert_cooldowns (
  type text not null,
  tenant text not null,                 -- empty: not about a tenant
  subject text not null,
  cooldown_until timestamptz not null,
  suppressed_count integer not null,
  latest_alert_id uuid,                 -- the newest suppressed alert
  primary key (type, tenant, subject)
);
create index alert_cooldowns_due on posthouse.alert_cooldowns (cooldown_until) where suppressed_count > 0;

-- One message to one destination. Its job ends like any job; the result is recorded here.
create table posthouse.alert_deliveries (
  job_id uuid primary key,
  alert_id uuid not null references posthouse.alerts on delete cascade,
  destination text not null,
  state text not null default 'queued' check (state in ('queued', 'sent', 'failed')),
  ended_at timestamptz,
  error text
);
create index alert_deliveries_alert on posthouse.alert_deliveries (alert_id);
create index alert_deliveries_open on posthouse.alert_deliveries (job_id) where state = 'queued';

-- The destinations of alerts, and when a process last posted alerts to them. A process without a destination leaves
-- alerts to those that have one.
create table posthouse.alert_destinations (
  name text primary key,
  seen_at timestamptz not null
);

-- How far the search for alerts has come. It reads the tables of jobs by time, and a transaction may commit long after it
-- read the clock. So the next search starts at a time before which every row has been seen: at checkpoint_at of an
-- earlier search, once all transactions that ran then (those before checkpoint_xid) have ended.
create table posthouse.alert_cursor (
  singleton boolean primary key default true check (singleton),  -- there is one row
  scanned_until timestamptz not null,
  checkpoint_at timestamptz not null,
  checkpoint_xid xid8 not null default '0'
);

insert into posthouse.alert_cursor (scanned_until, checkpoint_at) values (posthouse.now(), posthouse.now());
create index history_failed on posthouse.history (finished_at) where status in ('failed', 'dead_letter');
create index past_attempts_failed on posthouse.past_attempts (finished_at)
  where outcome in ('failed', 'timeout', 'crashed', 'lost');

create type posthouse.alert_candidate as (
  at timestamptz,
  type text,
  tenant_id text,
  subject text,
  message text,
  details jsonb,
  dedupe_key text
);
