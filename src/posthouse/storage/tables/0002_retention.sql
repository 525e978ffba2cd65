-- Works with code from: 0.1.0
-- Required by this code: yes

-- The tables that retention cleans up. A partitioned table that is not listed is kept as in the general setting.
create table posthouse.kept (
  relation text primary key,
  thing text not null,                     -- its setting is <thing>_retention_days
  at text not null,                        -- the column with the time of a row
  tenant text,                             -- the column with the tenant; null: not per tenant
  of_jobs boolean not null default false,  -- belongs to jobs, and is never kept longer than they are
  span text not null default 'day' check (span in ('day', 'month'))  -- the time range of a partition
);

insert into posthouse.kept (relation, thing, at, tenant, of_jobs, span) values
  ('history', 'jobs', 'finished_at', 'tenant_id', true, 'day'),
  ('past_attempts', 'attempts', 'finished_at', 'tenant_id', true, 'day'),
  ('audit', 'audit', 'at', null, false, 'month'),
  ('worker_changes', 'workers', 'at', null, false, 'day');

-- Tenants whose rows were deleted from a partition: a tenant, or '' for all tenants without their own retention.
create table posthouse.purged (
  partition text not null,
  tenant_id text not null,
  primary key (partition, tenant_id)
);

-- Partitions that were detached and are about to be dropped. Rows of these tenants were copied to a new partition.
create table posthouse.detached (
  name text primary key,
  relation text not null,
  tenants text[] not null
);
