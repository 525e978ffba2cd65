-- Works with code from: 0.1.0
-- Required by this code: yes

-- The tables that retention cleans up. A partitioned table without a row here has the general retention.
create table posthouse.retention_rules (
  relation text primary key,
  category text not null,                  -- its setting is <category>_retention_days
  time_column text not null,               -- the column with the time of a row
  tenant_column text,                      -- the column with the tenant; null: retention per tenant does not apply
  follows_jobs boolean not null default false,  -- rows belong to jobs, and are never retained longer than the jobs
  partition_interval text not null default 'day' check (partition_interval in ('day', 'month'))
);

insert into posthouse.retention_rules
  (relation, category, time_column, tenant_column, follows_jobs, partition_interval)
values
  ('history', 'jobs', 'finished_at', 'tenant_id', true, 'day'),
  ('past_attempts', 'attempts', 'finished_at', 'tenant_id', true, 'day'),
  ('audit', 'audit', 'at', null, false, 'month'),
  ('worker_changes', 'workers', 'at', null, false, 'day');

-- Tenants whose rows were deleted from a partition: a tenant, or '' for all tenants without their own retention.
create table posthouse.purged_tenants (
  partition text not null,
  tenant_id text not null,
  primary key (partition, tenant_id)
);

-- Partitions that were detached and are about to be dropped. Rows of copied_tenants are in the partition that replaced
-- it.
create table posthouse.detached_partitions (
  partition text primary key,
  relation text not null,
  copied_tenants text[] not null
);
