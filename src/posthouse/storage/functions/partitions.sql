-- Partitions: created ahead, detached, replaced by a copy of what is retained, and dropped.

-- Limits for how long a detach or an attach may block other transactions.
create or replace function posthouse.set_short_lock_timeout() returns void
language sql as $$ select set_config('lock_timeout', '100ms', true) $$;

create or replace function posthouse.partitioned_tables() returns setof text
language sql stable as $$
  select relname::text from pg_class
  where relkind = 'p' and relnamespace = 'posthouse'::regnamespace order by relname
$$;

-- All partitions with a time range.
create or replace function posthouse.partitions()
returns table (relation text, partition text, starts_at timestamptz, ends_at timestamptz)
language sql stable
set datestyle = 'ISO'  -- the bounds are parsed from their text
as $$
  select p.relname::text, c.relname::text, b.bounds[1]::timestamptz, b.bounds[2]::timestamptz
  from pg_inherits as i
  join pg_class as c on c.oid = i.inhrelid
  join pg_class as p on p.oid = i.inhparent and p.relkind = 'p' and p.relnamespace = 'posthouse'::regnamespace
  cross join lateral regexp_match(
    pg_get_expr(c.relpartbound, c.oid), $r$FROM \('([^']+)'\) TO \('([^']+)'\)$r$) as b (bounds)
  where c.relkind = 'r' and b.bounds is not null
$$;

create or replace function posthouse.partition_name(p_table text, p_day date, p_interval text default 'day') returns text
language sql immutable as $$
  select format('%s_%s', p_table, to_char(p_day, case p_interval when 'month' then 'YYYYMM' else 'YYYYMMDD' end))
$$;

-- Creates the partition of a day, or of its month. It is attached instead of created in place, because ATTACH does not
-- block writers. Returns false if it exists.
create or replace function posthouse.create_partition(p_table text, p_day date, p_interval text default 'day') returns boolean
language plpgsql as $$
declare
  v_name text := posthouse.partition_name(p_table, p_day, p_interval);
  v_start timestamp := date_trunc(p_interval, p_day::timestamp);
begin
  if to_regclass('posthouse.' || quote_ident(v_name)) is not null then
    return false;
  end if;
  execute format('create table posthouse.%I (like posthouse.%I including defaults including constraints)',
                 v_name, p_table);
  execute format(
    'alter table posthouse.%I attach partition posthouse.%I for values from (%L) to (%L)',
    p_table, v_name, v_start at time zone 'UTC', (v_start + ('1 ' || p_interval)::interval) at time zone 'UTC');
  perform posthouse.secure_partition(p_table, v_name);
  return true;
end $$;

-- Completes a new partition: ATTACH copies row triggers from the parent, but neither TRUNCATE triggers nor row-level
-- security (functions/access.sql).
create or replace function posthouse.secure_partition(p_table text, p_name text) returns void
language plpgsql as $$
declare
  v_parent regclass := ('posthouse.' || quote_ident(p_table))::regclass;
  v_trigger record;
begin
  if (select relrowsecurity from pg_class where oid = v_parent) then
    perform posthouse.enable_row_security(('posthouse.' || quote_ident(p_name))::regclass, null);
  end if;
  for v_trigger in
    select t.tgname, t.tgfoid::regproc::text as act from pg_trigger as t
    where t.tgrelid = v_parent and not t.tgisinternal and t.tgtype & 32 <> 0
  loop
    execute format('create trigger %I before truncate on posthouse.%I execute function %s()',
                   v_trigger.tgname, p_name, v_trigger.act);
  end loop;
end $$;

-- Creates the partitions of today and of the days ahead; returns how many were missing. One caller at a time. If rows
-- of a day are already in the default partition, that day stays there.
create or replace function posthouse.create_partitions(p_days_ahead integer default 2) returns integer
language plpgsql as $$
declare
  v_today date := (posthouse.now() at time zone 'UTC')::date;
  v_made integer := 0;
  v_part record;
begin
  if not pg_try_advisory_xact_lock(7705, 1) then
    return 0;
  end if;
  perform posthouse.set_short_lock_timeout();
  for v_part in
    select distinct rule.relation, rule.partition_interval, date_trunc(rule.partition_interval, d)::date as day
    from posthouse.effective_retention_rules() as rule
    cross join generate_series(v_today::timestamp, v_today::timestamp + make_interval(days => p_days_ahead),
                               interval '1 day') as d
    where rule.relation in (select posthouse.partitioned_tables())
    order by 1, 3
  loop
    begin
      v_made := v_made + posthouse.create_partition(v_part.relation, v_part.day, v_part.partition_interval)::integer;
    exception
      when check_violation then null;   -- the default partition holds rows of that day
      when lock_not_available then null; -- busy: the next round tries again
    end;
  end loop;
  return v_made;
end $$;

-- The estimated number of rows of a table, from the statistics of Postgres, and its size on disk.
create or replace function posthouse.table_size(p_name text, out rows bigint, out bytes bigint)
language sql stable as $$
  select greatest(c.reltuples, s.n_live_tup, 0)::bigint, pg_total_relation_size(c.oid)
  from pg_class as c left join pg_stat_all_tables as s on s.relid = c.oid
  where c.oid = to_regclass('posthouse.' || quote_ident(p_name))
$$;

-- The tables in which rows are deleted one by one: a table without partitions, or the default partition of a
-- partitioned one. The audit is never deleted row by row.
create or replace function posthouse.unpartitioned_tables(rule posthouse.retention_rules) returns text[]
language sql stable as $$
  select array(
    select c.relname::text from pg_class as c
    where c.relnamespace = 'posthouse'::regnamespace and rule.relation <> 'audit'
      and (c.relname = rule.relation and c.relkind = 'r' or c.oid = (
        select p.partdefid from pg_partitioned_table as p
        where p.partrelid = to_regclass('posthouse.' || quote_ident(rule.relation)))))
$$;

-- Rows in default partitions, counted up to a limit.
create or replace function posthouse.default_partition_rows(p_limit integer) returns table (relation text, rows bigint)
language plpgsql stable as $$
begin
  for relation in select posthouse.partitioned_tables() loop
    execute format('select count(*) from (select from %s limit $1) as s', (
      select p.partdefid::regclass from pg_partitioned_table as p
      where p.partrelid = ('posthouse.' || quote_ident(relation))::regclass and p.partdefid <> 0))
    into rows using p_limit;
    return next;
  end loop;
end $$;

-- Detaches a partition; it is dropped later, when it is not in use. Returns null if it no longer exists, false if the
-- table is in use or another keeper is at work: try again.
create or replace function posthouse.detach_partition(p_name text, p_kept_tenants text[] default '{}') returns boolean
language plpgsql as $$
declare
  v_relation text := (select p.relation from posthouse.partitions() as p where p.partition = p_name);
begin
  if v_relation is null then
    return null;
  elsif not pg_try_advisory_xact_lock(7705, 2) or not posthouse.lock_partition(v_relation, p_name) then
    return false;
  end if;
  perform posthouse.detach_from_parent(v_relation, p_name, p_kept_tenants);
  return true;
exception
  when lock_not_available then return false;
end $$;

-- Locks a partition and its table for attaching or detaching. A lock request on the table that waits blocks all later
-- transactions, so the wait is short; the partition is then locked without waiting.
create or replace function posthouse.lock_partition(p_relation text, p_name text) returns boolean
language plpgsql as $$
begin
  perform posthouse.set_short_lock_timeout();
  execute format('lock table only posthouse.%I in access exclusive mode', p_relation);
  execute format('lock table posthouse.%I in access exclusive mode nowait', p_name);
  return true;
exception
  when lock_not_available then return false;
end $$;

create or replace function posthouse.detach_from_parent(p_relation text, p_name text, p_kept_tenants text[]) returns void
language plpgsql as $$
begin
  if exists (select from posthouse.detached_partitions where partition = p_name || '_detached') then
    raise lock_not_available;  -- an earlier partition of that name is still being cleared
  end if;
  execute format('alter table posthouse.%I detach partition posthouse.%I', p_relation, p_name);
  execute format('alter table posthouse.%I rename to %I', p_name, p_name || '_detached');
  insert into posthouse.detached_partitions (partition, relation, copied_tenants) values (p_name || '_detached', p_relation, p_kept_tenants);
  delete from posthouse.purged_tenants where partition = p_name;
end $$;

-- Drops a detached partition. Returns false if it is still locked.
create or replace function posthouse.drop_detached_partition(p_name text) returns boolean
language plpgsql as $$
begin
  if not exists (select from posthouse.detached_partitions where partition = p_name) then
    return true;
  end if;
  perform posthouse.set_short_lock_timeout();
  execute format('drop table if exists posthouse.%I', p_name);
  delete from posthouse.detached_partitions where partition = p_name;
  return true;
exception
  when lock_not_available then return false;
end $$;

-- Copies the rows of these tenants into a table that is to replace their partition; returns how many. It blocks no
-- other transaction. Returns null if the partition could not be replaced now, so that a copy would be useless.
create or replace function posthouse.copy_retained_rows(p_name text, p_tenants text[]) returns bigint
language plpgsql as $$
declare
  v_part record;
  v_copy text := p_name || '_kept';
  v_rows bigint;
  rule posthouse.retention_rules;
begin
  select * into v_part from posthouse.partitions() as p where p.partition = p_name;
  if not found or not pg_try_advisory_xact_lock(7705, 2) or not posthouse.can_lock_partition(v_part.relation, p_name) then
    return null;
  elsif exists (select from posthouse.purged_tenants where partition = p_name and tenant_id = '') then
    return 0;  -- another keeper was quicker
  end if;
  select * into rule from posthouse.effective_retention_rules() as t where t.relation = v_part.relation;
  execute format('drop table if exists posthouse.%I', v_copy);
  execute format('create table posthouse.%I (like posthouse.%I including defaults including constraints including indexes)',
                 v_copy, v_part.relation);
  perform posthouse.secure_partition(v_part.relation, v_copy);
  execute format('insert into posthouse.%1$I (%4$s) select %4$s from posthouse.%2$I where %3$I = any ($1)',
                 v_copy, p_name, rule.tenant_column, posthouse.columns_of(p_name))
  using p_tenants;
  get diagnostics v_rows = row_count;
  -- With this constraint, ATTACH does not check the rows while it blocks other transactions.
  execute format('alter table posthouse.%I add constraint within_range check (%I >= %L and %I < %L)',
                 v_copy, rule.time_column, v_part.starts_at, rule.time_column, v_part.ends_at);
  return v_rows;
end $$;

-- The names of a table's columns, for a statement that copies rows.
create or replace function posthouse.columns_of(p_name text) returns text
language sql stable as $$
  select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
  where attrelid = to_regclass('posthouse.' || quote_ident(p_name)) and attnum > 0 and not attisdropped
$$;

-- Whether a partition can be locked at this moment; the lock is released again.
create or replace function posthouse.can_lock_partition(p_relation text, p_name text) returns boolean
language plpgsql as $$
begin
  if posthouse.lock_partition(p_relation, p_name) then
    raise exception 'release the lock' using errcode = 'PH090';
  end if;
  return false;
exception
  when sqlstate 'PH090' then return true;
end $$;

-- Replaces a partition with the copy that copy_retained_rows made; the partition is dropped later. Returns null if the
-- partition or the copy no longer exists, false if the table is in use.
create or replace function posthouse.swap_partition(p_name text, p_tenants text[]) returns boolean
language plpgsql as $$
declare
  v_part record;
  v_copy text := p_name || '_kept';
begin
  select * into v_part from posthouse.partitions() as p where p.partition = p_name;
  if not found or to_regclass('posthouse.' || quote_ident(v_copy)) is null then
    return null;
  elsif not pg_try_advisory_xact_lock(7705, 2) or not posthouse.lock_partition(v_part.relation, p_name) then
    return false;
  end if;
  if v_part.relation = 'history' then  -- jobs that were retried since the copy have left history; other rows never change
    execute format(
      'delete from posthouse.%I as c where c.status <> ''succeeded'' and not exists (
         select from posthouse.%I as o where o.id = c.id and o.finished_at = c.finished_at)', v_copy, p_name);
  end if;
  perform posthouse.detach_from_parent(v_part.relation, p_name, p_tenants);
  execute format('alter table posthouse.%I rename to %I', v_copy, p_name);
  execute format('alter table posthouse.%I attach partition posthouse.%I for values from (%L) to (%L)',
                 v_part.relation, p_name, v_part.starts_at, v_part.ends_at);
  execute format('alter table posthouse.%I drop constraint within_range', p_name);
  insert into posthouse.purged_tenants (partition, tenant_id)
  select p_name, t.id from (
    select '' union select id from posthouse.tenants where retention_days is not null) as t (id)
  where t.id <> all (p_tenants);
  return true;
exception
  when lock_not_available then return false;
end $$;
