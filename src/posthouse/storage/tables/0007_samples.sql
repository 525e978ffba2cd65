-- Works with code from: 0.1.0
-- Required by this code: yes

-- Samples: what each minute brought, for each tenant, queue and kind. Made from what the places hold when the minute
-- is over, so that nothing that workers or clients do costs more for it.
--
-- Ended jobs and past attempts are found by the minute of their end. A block-range index does that: rows are
-- appended in about that order, and an insert hardly notices it (no difference could be measured: 14.4 us a job
-- with and without).
create index history_finished on posthouse.history using brin (finished_at) with (pages_per_range = 32);
create index past_attempts_finished on posthouse.past_attempts using brin (finished_at)
  with (pages_per_range = 32);

-- Times are kept as histograms, since percentiles cannot be added up: the numbers of buckets that hold something, and
-- how many they hold. Eight buckets double a time, so that what is read from them is off by 5 % at most.
create table posthouse.samples (
  minute timestamptz not null,
  arrivals integer not null default 0,
  ended integer not null default 0,         -- jobs of any status
  succeeded integer not null default 0,
  failed integer not null default 0,        -- jobs that ended by an error that is not retried
  dead_letter integer not null default 0,   -- jobs that used up their attempts
  failures integer not null default 0,      -- attempts that failed, timed out, crashed or were lost
  retries integer not null default 0,       -- those of them after which the job went on
  rescues integer not null default 0,       -- those of them that were lost: their worker was gone, or cut off
  ready integer,                            -- at its end, as the next four; null: it was sampled too late to know
  waiting integer,
  running integer,
  oldest_seconds real,                      -- how long the oldest job that is ready could have started
  tenant_id text not null,
  queue text not null,
  kind text not null,
  wait_buckets smallint[] not null default '{}',
  wait_counts integer[] not null default '{}',
  run_buckets smallint[] not null default '{}',
  run_counts integer[] not null default '{}',
  primary key (minute, tenant_id, queue, kind)
);

-- Which minutes were sampled. One that may have missed something that was committed late is not sealed, and looked at
-- once more.
create table posthouse.sampled_minutes (
  minute timestamptz primary key,
  looks integer not null default 1,
  sealed boolean not null,
  backlog boolean not null,                 -- whether it is known what was left at its end
  seconds real not null                     -- what the look at it took, with the minutes that were due with it
);

-- What all samples come to: counts that only ever grow, for metrics. They outlive the samples, and every process that
-- reads them reads the same. Of minutes when no keeper ran for an hour nothing is known here either.
create table posthouse.total_jobs (
  tenant_id text not null,
  queue text not null,
  kind text not null,
  first_minute timestamptz not null,        -- names are given out in this order, and never taken back
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

-- Waits and run times, in steps that double: `octave` n holds those up to 0.1 ms * 2^n.
create table posthouse.total_times (
  queue text not null,
  kind text not null,
  what text not null check (what in ('wait', 'run')),
  octave smallint not null,
  attempts bigint not null,
  seconds double precision not null,        -- all together, as far as the buckets tell
  primary key (queue, kind, what, octave)
);

-- Up to which minute samples are in the totals.
create table posthouse.totals_until (minute timestamptz not null);

insert into posthouse.totals_until values ('-infinity');
