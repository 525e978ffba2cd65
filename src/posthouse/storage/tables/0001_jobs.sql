-- Works with code from: 0.1.0
-- Required by this code: yes

-- The columns that all tables of jobs share. Fixed-width columns come first, so that there is no padding between them.
create table posthouse.job (
  id uuid not null,
  parent_id uuid,
  queued_at timestamptz not null,
  scheduled_for timestamptz not null,
  started_at timestamptz,
  priority integer not null,
  attempt_count integer not null default 0,
  max_attempts integer not null,
  generation integer not null default 1,
  crashes integer not null default 0,
  snoozes integer not null default 0,
  timeout_seconds real,
  progress_percent real,
  tenant_id text not null,
  kind text not null,
  queue text not null,
  source text not null default 'manual',
  payload jsonb,             -- null: stored in posthouse.payloads
  dedupe_key text,
  order_key text,
  correlation_id text,
  subject text,
  source_ref text,
  created_by text,
  retry jsonb,
  depends_on uuid[],
  limit_key text,            -- the key by which limits per key count the job
  requires text[],           -- the capabilities that a worker must have to run the job
  prefers text[],            -- the capabilities that a worker should have, if such a worker is idle
  current_step text,
  progress_message text,
  last_error text,
  trace text,                -- W3C traceparent of the enqueuing request. A column: a null takes no space (the rows'
                             -- null bitmaps have room), it moves with the job, and a claim reads it without a join. In
                             -- the payload, handlers and schemas would see it; a separate table would need clean-up.
  constraint job_attempts_within_limit check (attempt_count between 0 and max_attempts and max_attempts > 0),
  constraint job_source_known check (source in ('manual', 'event', 'schedule', 'system'))
);

create sequence posthouse.position;

create table posthouse.ready (
  like posthouse.job including defaults including constraints,
  lane bigint not null,
  position bigint not null default nextval('posthouse.position')
);
create unique index ready_line on posthouse.ready (lane, position);
create unique index ready_id on posthouse.ready (id);
-- Partial, so that only jobs with a correlation or subject cost an index entry.
create index ready_correlation on posthouse.ready (correlation_id, id) where correlation_id is not null;
create index ready_subject on posthouse.ready (subject, id) where subject is not null;

create table posthouse.waiting (
  like posthouse.job including defaults including constraints,
  rank smallint not null default 2,
  due_at timestamptz not null,
  blockers integer not null default 0 check (blockers >= 0),
  on_dependency_failure text not null default 'cancel'
    check (on_dependency_failure in ('cancel', 'run', 'wait'))
);
create unique index waiting_id on posthouse.waiting (id);
create index waiting_listed on posthouse.waiting (tenant_id, id);
create index waiting_correlation on posthouse.waiting (correlation_id, id) where correlation_id is not null;
create index waiting_subject on posthouse.waiting (subject, id) where subject is not null;
create index waiting_due on posthouse.waiting (due_at) where blockers = 0;

-- The first columns are those of ready, in the same order: a claim copies the row as it is.
create table posthouse.running (
  like posthouse.ready including constraints,
  token uuid not null,
  worker_id uuid not null,
  attempt_started_at timestamptz not null,
  lease_expires_at timestamptz not null,
  cancel_requested_at timestamptz,
  constraint running_has_started check (started_at is not null and attempt_count > 0)
) with (fillfactor = 85);  -- room for an update of the lease within the same page
create unique index running_id on posthouse.running (id);

-- The first columns are those of running, in the same order: a finish copies the row. The token stays, so that a
-- completion that is repeated after a lost reply is recognized as stored.
create table posthouse.history (
  like posthouse.running,
  result jsonb,
  finished_at timestamptz not null,
  status text not null,
  outcome text not null,
  error jsonb,
  output jsonb,              -- of a command: exit code, signal, pid, the last part of stdout and stderr
  erased_at timestamptz,     -- when its content was erased: see functions/erase.sql
  constraint history_is_ended check (status in ('succeeded', 'failed', 'canceled', 'dead_letter'))
) partition by range (finished_at);
-- Columns that history does not have.
alter table posthouse.running
  add slots text,              -- the slots of limits that count the job: see functions/limits.sql
  add progress_at timestamptz; -- when this attempt last reported progress: see functions/progress.sql
-- Null for jobs that were canceled before they ran: they have no lease, no worker and no lane.
alter table posthouse.history
  alter token drop not null, alter worker_id drop not null, alter lane drop not null,
  alter position drop not null, alter attempt_started_at drop not null,
  alter lease_expires_at drop not null;
create index history_id on posthouse.history (id);
create index history_listed on posthouse.history (tenant_id, status, id);
create index history_unsuccessful on posthouse.history (tenant_id, status, finished_at)
  where status <> 'succeeded';
create index history_correlation on posthouse.history (correlation_id, id) where correlation_id is not null;
create index history_subject on posthouse.history (subject, id) where subject is not null;
create table posthouse.history_default partition of posthouse.history default;

-- Attempts that did not end their job. The last attempt of an ended job is its row in history, and the current one its
-- row in running: the view posthouse.attempts shows all three. So a job that succeeds at once writes one row instead of
-- two.
create table posthouse.past_attempts (
  job_id uuid not null,
  tenant_id text not null,
  kind text not null,
  generation integer not null,
  attempt integer not null,
  worker_id uuid,
  token uuid,
  started_at timestamptz not null,
  finished_at timestamptz not null,
  outcome text not null,
  subject text,
  error jsonb,
  output jsonb,
  queue text,
  ready_at timestamptz       -- since when it could have started; null: unknown, because it waited for other jobs
) partition by range (finished_at);
create index past_attempts_job on posthouse.past_attempts (job_id);
create table posthouse.past_attempts_default partition of posthouse.past_attempts default;

-- Payloads over 2 kB stay here while their job moves between tables.
create table posthouse.payloads (
  job_id uuid primary key,
  body jsonb not null
);

-- The directory of lanes: a row is written on a lane's first use and never changed. Two transactions may write the same
-- new lane; a unique index would make one wait for the other, so there is none, and readers remove duplicates.
create table posthouse.lanes (
  lane bigint not null,
  queue text not null,
  kind text not null,
  tenant_id text not null,
  priority integer not null,
  rank smallint not null,
  limit_key text,
  requires text[],
  prefers text[]
);
create index lanes_lane on posthouse.lanes (lane);
create index lanes_queue on posthouse.lanes (queue, kind);

-- Dedupe keys and the jobs that hold them. is_active: the job has not ended; expires_at: until when the key counts after
-- that; reuse_result: the key stays after success, so that repeated requests get the stored result.
create table posthouse.dedupe_keys (
  tenant_id text not null,
  dedupe_key text not null,
  job_id uuid not null,
  is_active boolean not null default true,
  reuse_result boolean not null default false,
  expires_at timestamptz,
  primary key (tenant_id, dedupe_key)
);

-- An edge: job_id waits for depends_on. keeps_order: because depends_on is before it in its ordered group; the job then
-- starts after depends_on has ended, with any status. xid lets the keeper recheck only the edges that were being
-- committed while their dependency ended.
create table posthouse.job_dependencies (
  depends_on uuid not null,
  job_id uuid not null,
  keeps_order boolean not null default false,
  xid xid8 not null default pg_current_xact_id(),
  primary key (depends_on, job_id, keeps_order)
);
create index job_dependencies_job on posthouse.job_dependencies (job_id);
create index job_dependencies_xid on posthouse.job_dependencies (xid);

-- The last job of each ordered group: the next job with the same key waits for it.
create table posthouse.order_tails (
  tenant_id text not null,
  order_key text not null,
  job_id uuid not null,
  primary key (tenant_id, order_key)
);

create table posthouse.workers (
  id uuid primary key,
  number integer generated always as identity unique,  -- the key of its liveness lock
  name text not null,
  hostname text not null,
  pid integer not null,
  version text not null default '',
  code text not null default '',           -- the version of its handlers: a digest of their parameters
  queues text[] not null,
  kinds text[] not null,
  concurrency integer not null,
  capability_details jsonb not null default '{}',
  capabilities text[] not null default '{}',   -- words, which jobs require or prefer
  metadata jsonb not null default '{}',
  key text,                                -- prefix of its API key; null: it connects to the database itself
  only_tenant text,                        -- the scope of that key; null: not restricted
  only_queues text[],
  watched boolean not null default false,  -- holds a liveness lock
  started_at timestamptz not null,
  heartbeat_at timestamptz,
  lease interval,                          -- how long its last heartbeat extended the leases
  offline_after interval not null default '5 minutes',  -- it counts as offline after so long without a heartbeat
  missing_since timestamptz,               -- since when its liveness lock has been free
  stopped_at timestamptz,                  -- it signed off or was found lost; a heartbeat after a loss clears it
  lost_at timestamptz,                     -- when it was found lost; null once it has returned
  disabled_at timestamptz,                 -- disabled by an operator: it claims nothing
  drain_requested_at timestamptz               -- drained by an operator: it is to finish its jobs and stop
);

-- API servers. Remote workers can renew their leases only while one of them runs (see servers_settled).
create table posthouse.servers (
  id uuid primary key,
  hostname text not null,
  pid integer not null,
  reachable_since timestamptz not null,    -- since when its heartbeats have had no gap
  heartbeat_at timestamptz not null
);

-- When workers started and stopped, for alerts and logs. back: a worker that was considered lost returned.
create table posthouse.worker_changes (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  worker_id uuid not null,
  name text not null,
  change text not null check (change in ('started', 'stopped', 'lost', 'back'))
);
create index worker_changes_at on posthouse.worker_changes (at);

-- Kinds of jobs. The columns hold the values in effect: the defaults, overridden by what a worker announced for its
-- handler, overridden by what an operator set. Both layers are stored, so that neither overwrites the other (see
-- functions/definitions.sql, the only writer).
create table posthouse.definitions (
  key text primary key,
  description text not null default '',
  queue text not null default 'default',
  priority integer not null default 100,
  max_attempts integer not null default 3,
  timeout_seconds real,
  retry jsonb,
  schema jsonb not null default '{}',
  limits jsonb,
  requires text[] not null default '{}',
  prefers text[] not null default '{}',
  followup_queues text[] not null default '{}',  -- queues that follow-ups may go to beyond those of a worker's key
  active boolean not null default true,
  redact text[] not null default '{}',
  keep_steps boolean not null default true,     -- kept for the next attempt, see functions/progress.sql
  keep_progress boolean not null default true,
  runner text not null default 'handler',
  command jsonb,
  origin text not null default 'code',
  announced jsonb,            -- null: no worker has announced it
  overrides jsonb not null default '{}',
  version integer not null default 1,
  created_at timestamptz not null default posthouse.now(),
  updated_at timestamptz not null,
  constraint a_key_is_a_short_text check (length(key) between 1 and 512 and key !~ '[[:cntrl:]]'),
  constraint a_queue_is_a_short_text check (length(queue) between 1 and 512 and queue !~ '[[:cntrl:]]'),
  constraint max_attempts_is_from_1_to_1000000 check (max_attempts between 1 and 1000000),
  constraint a_timeout_is_more_than_0 check (timeout_seconds > 0),
  constraint retry_is_an_object check (jsonb_typeof(retry) = 'object'),
  constraint a_schema_is_an_object check (jsonb_typeof(schema) = 'object'),
  constraint capabilities_and_paths_are_not_empty
    check (array_position(requires || prefers || redact || followup_queues, '') is null
           and array_position(requires || prefers || redact || followup_queues, null) is null),
  constraint runner_is_handler_or_command check (runner in ('handler', 'command')),
  constraint a_command_runner_has_a_command
    check ((runner = 'command') = (command is not null) and coalesce(jsonb_typeof(command) = 'object', true)),
  -- A worker runs the argv of a command, so only operators may create commands.
  constraint an_announced_definition_is_a_handler check (announced is null or runner = 'handler'),
  constraint origin_is_code_or_operator check (origin in ('code', 'operator'))
);

-- Actions of people and programs. Append-only: retention drops whole months.
create table posthouse.audit (
  id bigint generated always as identity,
  at timestamptz not null,
  actor text not null,
  action text not null,
  tenant_id text,
  target text not null,
  before jsonb,
  after jsonb,
  primary key (id, at)
) partition by range (at);
create index audit_target on posthouse.audit (target, id);
create index audit_actor on posthouse.audit (actor, id);
create table posthouse.audit_default partition of posthouse.audit default;
create trigger audit_is_append_only before update or delete on posthouse.audit
  for each row execute function posthouse.reject_audit_change();
create trigger audit_is_not_truncated before truncate on posthouse.audit
  execute function posthouse.reject_audit_change();
create trigger audit_is_not_truncated before truncate on posthouse.audit_default
  execute function posthouse.reject_audit_change();

-- The legal transitions. posthouse.core.states holds the same table; a test compares them.
create table posthouse.transitions (
  event text not null,
  from_status text not null,
  to_status text not null,
  primary key (event, from_status, to_status)
);

insert into posthouse.transitions (event, from_status, to_status) values
  ('claim', 'queued', 'running'),
  ('succeed', 'running', 'succeeded'),
  ('fail', 'running', 'failed'),
  ('exhaust', 'running', 'dead_letter'),
  ('retry', 'running', 'queued'),
  ('snooze', 'running', 'queued'),
  ('release', 'running', 'queued'),
  ('rescue', 'running', 'queued'),
  ('cancel', 'queued', 'canceled'),
  ('expire', 'queued', 'dead_letter'),
  ('cancel', 'running', 'canceled'),
  ('reopen', 'failed', 'queued'),
  ('reopen', 'canceled', 'queued'),
  ('reopen', 'dead_letter', 'queued');

create type posthouse.lane as (
  lane bigint,
  queue text,
  kind text,
  tenant_id text,
  priority integer,
  rank smallint,
  limit_key text,
  requires text[],
  prefers text[]
);

-- A request for a job, with every default filled in.
create type posthouse.request as (
  ordinal integer,
  id uuid,
  parent_id uuid,
  queued_at timestamptz,
  scheduled_for timestamptz,
  priority integer,
  max_attempts integer,
  timeout_seconds real,
  tenant_id text,
  kind text,
  queue text,
  source text,
  payload jsonb,
  aside boolean,              -- too large to move between tables: goes to posthouse.payloads
  dedupe_key text,
  dedupe_window real,
  on_duplicate text,
  order_key text,
  correlation_id text,
  subject text,
  source_ref text,
  created_by text,
  retry jsonb,
  depends_on uuid[],
  on_dependency_failure text,
  limit_key text,
  requires text[],
  prefers text[],
  trace text,
  verify boolean,             -- the id may exist already: a repeat, or an id made by the caller
  special boolean,            -- needs more than an insert
  later boolean,              -- might have had to wait: see store_one
  follows uuid,               -- the job before it in its ordered group
  took text[]                 -- for a kind without a definition: the options that the request left out
);

-- Queued jobs that were enqueued before their kind had a definition, with the options that they take from the
-- definition once it exists (adopt_jobs). Only such jobs have a row here; columns in ready and waiting would widen all
-- rows. Without an index: the table is read in full, by the keeper and when a definition is created.
create table posthouse.undefined_jobs (
  job_id uuid not null,
  kind text not null,
  took text[] not null
);

-- The lanes in which a claim saw ready jobs, the position after which to read each, how many jobs it saw there, and
-- whether to take exactly these (is_plan).
create type posthouse.lane_candidates as (
  lanes bigint[],
  priorities integer[],
  ranks smallint[],
  tenants text[],
  lane_cursors bigint[],
  jobs integer[],
  is_plan boolean
);

-- What a claim knows of limits (see functions/limits.sql). limited, fits and joined: the limited lanes, how many rows of
-- each fit, and its slots as running.slots has them. lanes to tokens, in parallel: a lane, its slot, the cost of a start,
-- how many jobs may start, and how many tokens there are.
create type posthouse.slot_budget as (
  limited bigint[],
  fits integer[],
  joined text[],
  lanes bigint[],
  slots text[],
  costs double precision[],
  free integer[],
  tokens double precision[]
);
-- For callers that see all tenants: only unsuccessful jobs, which are few, are in this index.
create index history_unsuccessful_ids on posthouse.history (status, id) where status <> 'succeeded';
