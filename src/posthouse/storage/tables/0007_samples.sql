-- Works with code from: 0.1.0
-- Required by this code: yes

-- Samples: counts for each minute, tenant, queue and kind. Computed from the tables of jobs when the minute is over, so
-- that workers and clients do no extra work.
--
-- Ended jobs and past attempts are found by the minute of their end. A block-range index serves this: rows are appended
-- in about that order, and inserts cost the same (no difference could be measured: 14.4 us a job with and without).
create index history_finished on posthouse.history using brin (finished_at) with (pages_per_range = 32);
create index past_attempts_finished on posthouse.past_attempts using brin (finished_at)
  with (pages_per_range = 32);

-- Times are stored as histograms, since percentiles cannot be added up: the numbers of the non-empty buckets, and their
-- counts. Eight buckets double a time, so a percentile read from them is off by 5 % at most.
create table posthouse.samples (
  minute timestamptz not null,
  arrivals integer not null default 0,
  ended integer not null default 0,         -- jobs of any status
  succeeded integer not null default 0,
  failed integer not null default 0,        -- jobs that ended with an error that is not retried
  dead_letter integer not null default 0,   -- jobs that used up their attempts
  failures integer not null default 0,      -- attempts that failed, timed out, crashed or were lost
  retries integer not null default 0,       -- failures after which the job continued
  rescues integer not null default 0,       -- failures that were lost: the worker died or was cut off
  ready integer,                            -- at the end of the minute, like the next three; null: sampled too late to know
  waiting integer,
  running integer,
  oldest_seconds real,                      -- how long the oldest ready job has been able to start
  tenant_id text not null,
  queue text not null,
  kind text not null,
  wait_buckets smallint[] not null default '{}',
  wait_counts integer[] not null default '{}',
  run_buckets smallint[] not null default '{}',
  run_counts integer[] not null default '{}',
  primary key (minute, tenant_id, queue, kind)
);

-- The minutes that were sampled. A minute that may have missed late commits is not sealed, and is sampled once more.
create table posthouse.sampled_minutes (
  minute timestamptz primary key,
  sample_count integer not null default 1,
  sealed boolean not null,
  backlog boolean not null,                 -- whether the backlog at its end is known
  seconds real not null                     -- how long sampling took, with the other minutes of that run
);

-- Totals of all samples: counts that never decrease, for metrics. They outlive the samples, and every process reads the
-- same values. Minutes that were never sampled, because no keeper ran for an hour, are missing here too.
create table posthouse.total_jobs (
  tenant_id text not null,
  queue text not null,
  kind text not null,
  first_minute timestamptz not null,        -- metrics name tenants, queues and kinds in this order: see totals_jobs
  arrivals bigint not null,
  ended bigint not null,
  succeeded bigint not null,
  failed bigint not null,
  dead_letter bigint not null,
  failures bigint not null,
  retries bigint not null,
  rescues bigint not null,
  primary key (tenant_id, queue, kind)
);

-- Waits and run times, in steps that double: `octave` n holds times up to 0.1 ms * 2^n.
create table posthouse.total_times (
  queue text not null,
  kind text not null,
  what text not null check (what in ('wait', 'run')),
  octave smallint not null,
  attempts bigint not null,
  seconds double precision not null,        -- the sum of the times, estimated from the buckets
  primary key (queue, kind, what, octave)
);

-- The minute up to which samples are in the totals.
create table posthouse.totals_until (minute timestamptz not null);

insert into posthouse.totals_until values ('-infinity');
