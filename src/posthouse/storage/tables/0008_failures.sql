-- Works with code from: 0.1.0
-- Required by this code: yes

create table posthouse.failure_deltas (
  job_id uuid not null,
  at timestamptz not null,
  failures integer not null,
  dead_letter integer not null default 0,
  failed integer not null default 0,
  canceled integer not null default 0,
  tenant_id text not null,
  kind text not null,
  fingerprint text not null,
  type text,
  message text
);

create table posthouse.failure_groups (
  tenant_id text not null,
  kind text not null,
  fingerprint text not null,
  type text not null,
  message text not null,                -- of the latest failure, like job_id
  job_id uuid not null,
  failures bigint not null,             -- failed attempts, and jobs canceled unstarted because a dependency failed
  dead_letter bigint not null,          -- jobs that ended with this failure, like the next two
  failed bigint not null,
  canceled bigint not null,
  first_seen timestamptz not null,
  last_seen timestamptz not null,
  primary key (tenant_id, kind, fingerprint)
);
create index failure_groups_fingerprint on posthouse.failure_groups (fingerprint text_pattern_ops);
create index failure_groups_seen on posthouse.failure_groups (last_seen);

-- Failures over time, in steps of five minutes.
create table posthouse.failure_counts (
  tenant_id text not null,
  kind text not null,
  fingerprint text not null,
  at timestamptz not null,
  failures integer not null,
  primary key (tenant_id, kind, fingerprint, at)
);
create index failure_counts_at on posthouse.failure_counts (at);
-- Ended jobs of a failure group, in the order of their end.
create index history_fingerprint on posthouse.history ((error ->> 'fingerprint'), kind, tenant_id, finished_at)
  where status <> 'succeeded';

-- Bulk changes: many ended jobs are retried, at a rate, until too many of them fail again; or many jobs are canceled,
-- at a rate. Until starts_at the change can be stopped without any effect. Then the keeper gathers the selected jobs
-- and changes them step by step; each result is recorded in the transaction that changes the job, so a keeper may die
-- at any time and each job is changed once.
create table posthouse.bulk_changes (
  id uuid primary key,
  state text not null default 'gathering'
    check (state in ('gathering', 'running', 'done', 'stopped', 'halted')),
  action text not null default 'retry' check (action in ('retry', 'cancel')),
  criteria jsonb not null,                   -- the criteria that are set: fingerprint, kind, queue, tenant, since, until,
                                           -- limit; or q, a line of the filter language, with tenant and limit
  filter jsonb,                            -- q, parsed: see functions/filters.sql
  gather_cursor uuid,                        -- the id down to which jobs were gathered
  rate double precision not null,          -- jobs per second
  stop_share double precision not null,    -- share of results: if more failed again, the change is halted
  stop_after integer not null,             -- the number of results from which stop_share applies
  total integer,
  next_position integer not null default 1,
  retried integer not null default 0,
  canceled integer not null default 0,
  skipped integer not null default 0,      -- jobs that could not be changed, or were changed by others
  succeeded integer not null default 0,
  failed integer not null default 0,       -- failed again: an attempt failed, and none has succeeded since
  checked_position integer not null default 0,
  credit double precision not null default 1,
  created_at timestamptz not null,
  created_by text not null,
  starts_at timestamptz not null,
  last_step_at timestamptz not null,
  ended_at timestamptz,
  reason text,
  constraint a_rate_is_more_than_0 check (rate > 0 and rate < 'infinity'),
  constraint stop_share_is_from_0_to_1 check (stop_share between 0 and 1),
  constraint stop_after_is_1_or_more check (stop_after >= 1)
);

create table posthouse.bulk_change_jobs (
  bulk_id uuid not null references posthouse.bulk_changes (id) on delete cascade,
  position integer not null,
  job_id uuid not null,
  generation integer,                      -- the generation that the retry started
  state text not null default 'pending'
    check (state in ('pending', 'retried', 'failing', 'succeeded', 'failed', 'canceled', 'skipped')),
  reason text,
  primary key (bulk_id, position)
);
create index bulk_change_jobs_open on posthouse.bulk_change_jobs (bulk_id, position)
  where state in ('retried', 'failing');
