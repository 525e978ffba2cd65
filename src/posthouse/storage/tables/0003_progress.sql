-- Works with code from: 0.1.0
-- Required by this code: yes

create table posthouse.parts (
  job_id uuid not null,
  ordinal bigint generated always as identity,
  started_at timestamptz,
  finished_at timestamptz,
  updated_at timestamptz not null,
  done bigint,
  total bigint,
  generation integer not null,  -- of the attempt that last changed the status
  attempt integer not null,
  percent real not null,
  weight real not null,
  tenant_id text not null,
  name text not null,
  status text not null,
  message text,
  error text,
  result jsonb,
  primary key (job_id, name),
  constraint parts_status_known check (status in ('pending', 'in_progress', 'completed', 'failed', 'skipped')),
  constraint parts_times_fit_status check (
    (status in ('completed', 'failed', 'skipped')) = (finished_at is not null)
    and (status <> 'in_progress' or started_at is not null)),
  constraint parts_within_bounds check (percent between 0 and 100 and weight >= 0 and done >= 0 and total >= 0)
) with (fillfactor = 85);

create table posthouse.steps (
  job_id uuid not null,
  ordinal bigint generated always as identity,
  finished_at timestamptz not null,
  generation integer not null,
  attempt integer not null,
  seconds real,
  tenant_id text not null,
  name text not null,
  result jsonb,
  primary key (job_id, name)
);

create table posthouse.artifacts (
  job_id uuid not null,
  created_at timestamptz not null,
  size bigint not null check (size >= 0),
  generation integer not null,
  attempt integer not null,
  tenant_id text not null,
  name text not null,
  content_type text not null,
  sha256 bytea not null check (length(sha256) = 32),
  blob_key text not null,
  primary key (job_id, name)
);
create index artifacts_created on posthouse.artifacts (created_at);

-- Bytes of deleted artifacts, until a process with access to the store deletes them.
create table posthouse.discarded_blobs (
  blob_key text primary key,
  at timestamptz not null default posthouse.now()
);
create trigger artifacts_leave_bytes after update or delete on posthouse.artifacts
  for each row execute function posthouse.discard_blob();

-- Numbers the log lines of all jobs: those of one job increase in the order in which they were written.
create sequence posthouse.log_sequence;

create table posthouse.log_lines (
  job_id uuid not null,
  sequence bigint not null default nextval('posthouse.log_sequence'),
  at timestamptz not null,
  generation integer not null,
  attempt integer not null,
  tenant_id text not null,
  stream text not null check (stream in ('stdout', 'stderr', 'log')),
  level text,
  text text not null
) partition by range (at);
create index log_lines_job on posthouse.log_lines (job_id, sequence);
create table posthouse.log_lines_default partition of posthouse.log_lines default;

insert into posthouse.retention_rules (relation, category, time_column, tenant_column, follows_jobs) values
  ('log_lines', 'logs', 'at', 'tenant_id', true);
