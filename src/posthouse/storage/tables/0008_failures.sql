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
  message text not null,                -- of the latest one, as the next
  job_id uuid not null,
  failures bigint not null,             -- attempts, and jobs that never started for want of others
  dead_letter bigint not null,          -- jobs that ended with it, as the next two
  failed bigint not null,
  canceled bigint not null,
  first_seen timestamptz not null,
  last_seen timestamptz not null,
  primary key (tenant_id, kind, fingerprint)
);
create index failure_groups_fingerprint on posthouse.failure_groups (fingerprint text_pattern_ops);
create index failure_groups_seen on posthouse.failure_groups (last_seen);

-- How many when, in steps of five minutes.
create table posthouse.failure_counts (
  tenant_id text not null,
  kind text not null,
  fingerprint text not null,
  at timestamptz not null,
  failures integer not null,
  primary key (tenant_id, kind, fingerprint, at)
);
create index failure_counts_at on posthouse.failure_counts (at);
-- Ended jobs of a group, in the order of their end.
create index history_fingerprint on posthouse.history ((error ->> 'fingerprint'), kind, tenant_id, finished_at)
  where status <> 'succeeded';

-- Bulk changes: many ended jobs run again, at a rate, until too many of them fail again; or many jobs are canceled, at a
-- rate. From starts_at on, until when it can be stopped as if it never was, the keeper gathers the jobs that were chosen,
-- then it changes them step by step; what is done stands in the same transaction as the job's own move, so a keeper
-- may die at any time and each job is changed once.
create table posthouse.bulk_changes (
  id uuid primary key,
  state text not null default 'gathering'
    check (state in ('gathering', 'running', 'done', 'stopped', 'halted')),
  action text not null default 'retry' check (action in ('retry', 'cancel')),
  chosen jsonb not null,                   -- fingerprint, kind, queue, tenant, since, until, limit: what is not null
                                           -- counts; or q, a line of the filter language, with tenant and limit
  wanted jsonb,                            -- what q means: see functions/filters.sql
  gathered_to uuid,                        -- how far down the ids they are gathered by it
  rate double precision not null,          -- jobs a second
  stop_share double precision not null,    -- of those that were heard of: more that fail again halt it
  stop_after integer not null,             -- once so many were heard of
  total integer,
  next_position integer not null default 1,
  retried integer not null default 0,
  canceled integer not null default 0,
  skipped integer not null default 0,      -- could not be changed, or were changed elsewhere
  succeeded integer not null default 0,
  failed integer not null default 0,       -- failed again: an attempt did, and none has succeeded since
  judged_position integer not null default 0,
  credit double precision not null default 1,
  created_at timestamptz not null,
  created_by text not null,
  starts_at timestamptz not null,
  looked_at timestamptz not null,
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
  generation integer,                      -- that the retry opened
  state text not null default 'pending'
    check (state in ('pending', 'retried', 'failing', 'succeeded', 'failed', 'canceled', 'skipped')),
  reason text,
  primary key (bulk_id, position)
);
create index bulk_change_jobs_open on posthouse.bulk_change_jobs (bulk_id, position)
  where state in ('retried', 'failing');
