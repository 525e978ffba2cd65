-- Works with code from: 0.1.0
-- Required by this code: yes

create table posthouse.triggers (
  id uuid primary key,
  tenant_id text not null,
  name text,                       -- set by code, which identifies its triggers by it; unique in a tenant
  label text not null default '',
  enabled boolean not null default true,
  type text not null,
  event_name text,                 -- exact, or a pattern in which * matches any text: provider.*
  cron_expr text,
  timezone text,
  definition_key text not null,
  payload_template jsonb not null default '{}',
  dedupe_window_seconds double precision not null default 300,
  queue text,                      -- null: the queue of the definition
  priority integer,
  gap text not null default 'next',
  fold text not null default 'once',
  missed text not null default 'once',
  catch_up_limit integer not null default 10,
  overlap text not null default 'allow',
  jitter_seconds double precision not null default 0,
  origin text not null default 'operator',
  announced jsonb,                 -- what the code announced last; null unless origin is code
  next_at timestamptz,             -- the next nominal time; null: to be computed
  last_nominal_at timestamptz,
  last_error text,
  last_error_at timestamptz,
  created_by text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  version integer not null default 1,
  unique (tenant_id, name),
  constraint a_trigger_has_an_event_or_a_schedule check (
    (type = 'event' and event_name is not null and cron_expr is null)
    or (type = 'schedule' and cron_expr is not null and timezone is not null and event_name is null)),
  constraint a_template_is_an_object check (jsonb_typeof(payload_template) = 'object'),
  constraint dedupe_window_seconds_is_0_or_more check (dedupe_window_seconds >= 0),
  constraint gap_is_next_or_skip check (gap in ('next', 'skip')),
  constraint fold_is_once_or_twice check (fold in ('once', 'twice')),
  constraint missed_is_skip_once_or_catch_up check (missed in ('skip', 'once', 'catch_up')),
  constraint catch_up_limit_is_from_1_to_1000 check (catch_up_limit between 1 and 1000),
  constraint overlap_is_allow_skip_or_queue check (overlap in ('allow', 'skip', 'queue')),
  constraint jitter_seconds_is_from_0_to_a_day check (jitter_seconds between 0 and 86400),
  constraint origin_is_code_or_operator check (origin in ('code', 'operator'))
);
create index triggers_event on posthouse.triggers (tenant_id, event_name) where type = 'event' and enabled;
create index triggers_due on posthouse.triggers (next_at) where type = 'schedule' and enabled;

create table posthouse.events (
  id uuid not null,
  at timestamptz not null,
  tenant_id text not null,
  name text not null,
  context jsonb not null,
  subject text,
  correlation_id text,
  created_by text
) partition by range (at);
create index events_id on posthouse.events (id);
create index events_tenant on posthouse.events (tenant_id, at);
create index events_subject on posthouse.events (subject, id) where subject is not null;
create table posthouse.events_default partition of posthouse.events default;

-- Events to be matched with triggers. `replay`: how many replays were requested; `trigger_ids`: match with these triggers
-- only.
create table posthouse.pending_events (
  event_id uuid primary key,
  at timestamptz not null,
  replay integer not null default 0,
  trigger_ids uuid[]
);
create index pending_events_order on posthouse.pending_events (at, event_id);

-- The outcome of an event at a trigger: fired (job_id was created), deduped (job_id was created before) or error.
-- Deleted with the event, so the table is partitioned by the event's time.
create table posthouse.trigger_matches (
  event_id uuid not null,
  trigger_id uuid not null,
  replay integer not null,
  event_at timestamptz not null,
  at timestamptz not null,
  tenant_id text not null,
  outcome text not null constraint a_match_is_fired_deduped_or_error check (outcome in ('fired', 'deduped', 'error')),
  job_id uuid,
  error text,
  primary key (event_id, trigger_id, replay, event_at)
) partition by range (event_at);
create index trigger_matches_trigger on posthouse.trigger_matches (trigger_id, at);
create table posthouse.trigger_matches_default partition of posthouse.trigger_matches default;

insert into posthouse.retention_rules (relation, category, time_column, tenant_column) values
  ('events', 'events', 'at', 'tenant_id'), ('trigger_matches', 'events', 'event_at', 'tenant_id');

-- The last job that a trigger created with a payload, while its dedupe window is open.
create table posthouse.trigger_dedupes (
  trigger_id uuid not null,
  payload_digest text not null,
  job_id uuid not null,
  expires_at timestamptz not null,
  primary key (trigger_id, payload_digest)
);

-- The outcome of a nominal time of a schedule. fired: job_id was created. overlap: no job, as the previous one was
-- still active. missed: no job, as no keeper ran in time, also for all times up to `missed_until`. error: no job; `reason`
-- says why.
create table posthouse.schedule_runs (
  trigger_id uuid not null,
  nominal_at timestamptz not null,
  at timestamptz not null,
  missed_until timestamptz,
  job_id uuid,
  active boolean not null default false,  -- the job may not have ended; set only if runs may not overlap
  tenant_id text not null,
  outcome text not null constraint a_run_is_fired_overlap_missed_or_error
    check (outcome in ('fired', 'overlap', 'missed', 'error')),
  reason text,
  primary key (trigger_id, nominal_at)
);
create index schedule_runs_active on posthouse.schedule_runs (trigger_id, nominal_at) where active;
create index schedule_runs_at on posthouse.schedule_runs (at);
