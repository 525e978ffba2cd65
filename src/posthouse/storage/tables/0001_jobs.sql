-- Works with code from: 0.1.0
-- Required by this code: yes

-- What every place stores of a job. Fixed-width columns stand first: no padding between them.
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
  payload jsonb,             -- null: kept aside in posthouse.payloads
  dedupe_key text,
  order_key text,
  correlation_id text,
  subject text,
  source_ref text,
  created_by text,
  retry jsonb,
  depends_on uuid[],
  limit_key text,            -- what limits per key count by
  requires text[],           -- what a worker must offer to run it
  prefers text[],            -- what a worker should offer, if one that does is idle
  current_step text,
  progress_message text,
  last_error text,
  trace text,                -- W3C traceparent of the enqueuing request. A column: where it is null it takes up nothing (the
                             -- rows' null bitmaps have room), it moves with the job, and a claim reads it without a join.
                             -- In the payload, handlers and schemas would meet it; a table beside would need keeping.
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
-- Only jobs that have one pay for these.
create index ready_correlation on posthouse.ready (correlation_id, id) where correlation_id is not null;
create index ready_subject on posthouse.ready (subject, id) where subject is not null;

create table posthouse.waiting (
  like posthouse.job including defaults including constraints,
  turn smallint not null default 2,
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

-- Its first columns are those of ready, in order: a claim copies the row as it is.
create table posthouse.running (
  like posthouse.ready including constraints,
  token uuid not null,
  worker_id uuid not null,
  attempt_started_at timestamptz not null,
  lease_expires_at timestamptz not null,
  cancel_requested_at timestamptz,
  slots text[],              -- the limits that it counts in: see functions/limits.sql
  progress_at timestamptz,   -- of the last report of this attempt: see functions/progress.sql
  constraint running_has_started check (started_at is not null and attempt_count > 0)
) with (fillfactor = 85);  -- room for the lease to move within its page
create unique index running_id on posthouse.running (id);

-- Its first columns are those of running, in order: a finish copies the row. The token stays, so
-- that a completion repeated after a lost reply is recognised as having landed.
create table posthouse.history (
  like posthouse.running,
  result jsonb,
  finished_at timestamptz not null,
  status text not null,
  outcome text not null,
  error jsonb,
  output jsonb,              -- of a command: exit code, signal, pid, the ends of stdout and stderr
  erased_at timestamptz,     -- its content was removed: see functions/erase.sql
  constraint history_is_ended check (status in ('succeeded', 'failed', 'canceled', 'dead_letter'))
) partition by range (finished_at);
-- Canceled before it ever ran: no lease, no worker, no line.
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

-- Attempts that did not end their job. The last attempt of an ended job is its history row, and the
-- present one its running row: the view posthouse.attempts shows all three. A job that succeeds at once
-- therefore writes one row, not two.
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
  ready_at timestamptz       -- since when it could have started; null: not known, it waited for other jobs too
) partition by range (finished_at);
create index past_attempts_job on posthouse.past_attempts (job_id);
create table posthouse.past_attempts_default partition of posthouse.past_attempts default;

-- Payloads over 2 kB stay here while their job moves from place to place.
create table posthouse.payloads (
  job_id uuid primary key,
  body jsonb not null
);

-- The directory of lanes: written on a lane's first use, never changed. Two transactions may both write a
-- new lane; a unique index would make one wait for the other, so there is none and readers group.
create table posthouse.lanes (
  lane bigint not null,
  queue text not null,
  kind text not null,
  tenant_id text not null,
  priority integer not null,
  turn smallint not null,
  limit_key text,
  requires text[],
  prefers text[]
);
create index lanes_lane on posthouse.lanes (lane);
create index lanes_queue on posthouse.lanes (queue, kind);

-- Who holds a dedupe key. `held` while the job is active; `until` for as long as the key counts after
-- that; `reuse` keeps it after success so that the stored result answers.
create table posthouse.dedupes (
  tenant_id text not null,
  dedupe_key text not null,
  job_id uuid not null,
  held boolean not null default true,
  reuse boolean not null default false,
  until timestamptz,
  primary key (tenant_id, dedupe_key)
);

-- An edge: job_id waits for depends_on. `line`: because that one stands before it in its ordered line, so it
-- may end as it likes. `xid` lets the keeper look again only at edges that were being committed while their
-- dependency ended.
create table posthouse.blocks (
  depends_on uuid not null,
  job_id uuid not null,
  line boolean not null default false,
  xid xid8 not null default pg_current_xact_id(),
  primary key (depends_on, job_id, line)
);
create index blocks_job on posthouse.blocks (job_id);
create index blocks_xid on posthouse.blocks (xid);

-- The last job of each ordered line: the next one with the same key waits for it.
create table posthouse.order_tails (
  tenant_id text not null,
  order_key text not null,
  job_id uuid not null,
  primary key (tenant_id, order_key)
);

create table posthouse.workers (
  id uuid primary key,
  number integer generated always as identity unique,  -- names its liveness lock
  name text not null,
  hostname text not null,
  pid integer not null,
  version text not null default '',
  code text not null default '',           -- the version of its handlers: a digest of their parameters
  queues text[] not null,
  kinds text[] not null,
  concurrency integer not null,
  capabilities jsonb not null default '{}',
  offers text[] not null default '{}',     -- the same as the words that jobs require or prefer
  metadata jsonb not null default '{}',
  key text,                                -- of the API, which it came with; null: it has the database itself
  only_tenant text,                        -- what that key is good for; null: for all of them
  only_queues text[],
  watched boolean not null default false,  -- holds a liveness lock
  started_at timestamptz not null,
  heartbeat_at timestamptz,
  lease interval,                          -- how long its last heartbeat extended the leases
  offline_after interval not null default '5 minutes',  -- without a heartbeat for so long it is offline
  missing_since timestamptz,               -- since when its liveness lock is not held
  stopped_at timestamptz,                  -- it signed off, or was found gone; a beat brings it back
  lost_at timestamptz,                     -- found gone: until it is seen to be back
  disabled_at timestamptz,                 -- by an operator: it claims nothing
  drain_asked_at timestamptz               -- by an operator: it is to finish its work and stop
);

-- API servers. Remote workers can renew their leases only while one of them runs (see servers_settled).
create table posthouse.servers (
  id uuid primary key,
  hostname text not null,
  pid integer not null,
  reachable_since timestamptz not null,    -- since when heartbeat_at has had no gap
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

-- What a kind of job is. The columns hold what is in effect: the defaults, overridden by what a worker announced
-- of its handler, overridden by what an operator set on purpose. Both are kept, so that neither loses the other's
-- word (see functions/definitions.sql, the one writer).
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
  followup_queues text[] not null default '{}',  -- queues outside a worker key's own that follow-ups may go to
  active boolean not null default true,
  redact text[] not null default '{}',
  keep_steps boolean not null default true,     -- for the next attempt, see functions/progress.sql
  keep_progress boolean not null default true,
  runner text not null default 'handler',
  command jsonb,
  origin text not null default 'code',
  announced jsonb,            -- null: no worker ever did
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

-- What people did. Append-only: it is read, and dropped month by month when it has been kept long enough.
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
  for each row execute function posthouse.refuse_change_of_audit();
create trigger audit_is_not_truncated before truncate on posthouse.audit
  execute function posthouse.refuse_change_of_audit();
create trigger audit_is_not_truncated before truncate on posthouse.audit_default
  execute function posthouse.refuse_change_of_audit();

-- The legal moves. posthouse.core.states holds the same table; a test compares them.
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
  turn smallint,
  limit_key text,
  requires text[],
  prefers text[]
);

-- A request, with every default filled in.
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
  aside boolean,              -- too large to move from place to place
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
  verify boolean,             -- the id may be known already: a repeat, or an id made by the caller
  special boolean,            -- needs more than an insert
  later boolean,              -- could have to wait: see store_one
  follows uuid,               -- the job before it in its ordered line
  took text[]                 -- of a kind without a definition: the options that the request left out
);

-- Queued jobs that were enqueued before their kind had a definition, and the options that they take from it when it
-- arrives (adopt_jobs). Only such jobs have a row here; kept apart from ready and waiting, whose rows it would widen.
-- Without an index: it is searched only when a definition is created and by the keeper, which reads all of it.
create table posthouse.undefined_jobs (
  job_id uuid not null,
  kind text not null,
  took text[] not null
);

-- The lanes in which a claim saw ready jobs, the position behind which it reads each, how many jobs it saw there, and
-- whether it is to take just these.
create type posthouse.lane_candidates as (
  lanes bigint[],
  priorities integer[],
  turns smallint[],
  tenants text[],
  marks bigint[],
  jobs integer[],
  is_plan boolean
);

-- What a claim knows of limits (see functions/limits.sql): of the limited lanes, how many rows fit. And beside each other a lane, its slot, what a start costs
-- there, how many may start and how many tokens there are; and for each lane its slots.
create type posthouse.slot_budget as (
  limited bigint[],
  fits integer[],
  lanes bigint[],
  slots text[],
  costs double precision[],
  free integer[],
  tokens double precision[],
  by_lane jsonb
);
-- For callers that see all tenants: unsuccessful jobs are few, and only they are in this index.
create index history_unsuccessful_ids on posthouse.history (status, id) where status <> 'succeeded';
