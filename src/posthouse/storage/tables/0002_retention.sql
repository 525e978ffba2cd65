-- Works with code from: 0.1.0
-- Required by this code: yes

-- The tables that retention knows. A partitioned table that is not listed is kept as the general setting says.
create table posthouse.kept (
  relation text primary key,
  thing text not null,                     -- <thing>_retention_days is its setting
  at text not null,                        -- the column that says how old a row is
  tenant text,                             -- the column with its tenant; null: tenants have no say
  of_jobs boolean not null default false,  -- it hangs on jobs, and is never kept longer than they are
  span text not null default 'day' check (span in ('day', 'month'))  -- of a partition
);

insert into posthouse.kept (relation, thing, at, tenant, of_jobs, span) values
  ('history', 'jobs', 'finished_at', 'tenant_id', true, 'day'),
  ('past_attempts', 'attempts', 'finished_at', 'tenant_id', true, 'day'),
  ('audit', 'audit', 'at', null, false, 'month'),
  ('worker_changes', 'workers', 'at', null, false, 'day');

-- Whose rows are out of a partition already: a tenant, or '' for all without days of their own.
create table posthouse.purged (
  partition text not null,
  tenant_id text not null,
  primary key (partition, tenant_id)
);

-- Partitions that were detached and are about to be dropped. Rows of these tenants were moved, not let go.
create table posthouse.detached (
  name text primary key,
  relation text not null,
  tenants text[] not null
);
