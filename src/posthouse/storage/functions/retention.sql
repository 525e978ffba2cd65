-- Retention: how long rows are kept. Partitions are created ahead and dropped when they expire.
--
-- Append-only tables are partitioned by time. Partitions are created ahead; the default partition only catches rows
-- that would otherwise fail. Expired rows are deleted by whole partitions, which costs the same however many rows they
-- hold:
--
--   drop    no tenant keeps the partition any longer: it is detached, rows that belong to its jobs are deleted, and it
--           is dropped.
--   shrink  some tenants keep their rows longer: these rows are copied into a new partition, which replaces the old one;
--           the old one is then dropped. The cost depends on the rows that are kept, not on those that are deleted.
--   purge   some tenants keep their rows for a shorter time: these rows are deleted page by page. Costs one read of the
--           partition for each day on which rows of tenants expire, and leaves dead rows to autovacuum.
--   delete  tables without partitions, and rows in default partitions: deleted by rows, in batches.
--   finish  a keeper died between detaching a partition and dropping it: the rest is done.
--
-- retention_plan returns the actions to take; each function after it does one short step in one transaction, which the
-- keeper repeats (posthouse.keeper.retention). A detach locks the parent exclusively and would block other transactions
-- while it waits, so it waits only briefly (set_short_lock_timeout); long steps run in detached partitions, where they
-- block no one.
--
-- Lock order: the parent, then its partition, without waiting for the second. Jobs: as in functions/jobs.sql.

-- Limits for how long a detach or an attach may block other transactions.
create or replace function posthouse.set_short_lock_timeout() returns void
language sql as $$ select set_config('lock_timeout', '100ms', true) $$;

create or replace function posthouse.partitioned_tables() returns setof text
language sql stable as $$
  select relname::text from pg_class
  where relkind = 'p' and relnamespace = 'posthouse'::regnamespace order by relname
$$;

create or replace function posthouse.effective_retention_rules() returns setof posthouse.kept
language sql stable as $$
  select k.* from posthouse.kept as k where to_regclass('posthouse.' || quote_ident(k.relation)) is not null
  union all
  select t, t, a.attname::text,
         (select attname::text from pg_attribute where attrelid = p.partrelid and attname = 'tenant_id'), false, 'day'
  from posthouse.partitioned_tables() as t
  join pg_partitioned_table as p on p.partrelid = ('posthouse.' || quote_ident(t))::regclass
  join pg_attribute as a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
  where not exists (select from posthouse.kept as k where k.relation = t)
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

create or replace function posthouse.partition_name(p_table text, p_day date, p_span text default 'day') returns text
language sql immutable as $$
  select format('%s_%s', p_table, to_char(p_day, case p_span when 'month' then 'YYYYMM' else 'YYYYMMDD' end))
$$;

-- Creates the partition of a day, or of its month. It is attached instead of created in place, because ATTACH does not
-- block writers. Returns false if it exists.
create or replace function posthouse.create_partition(p_table text, p_day date, p_span text default 'day') returns boolean
language plpgsql as $$
declare
  v_name text := posthouse.partition_name(p_table, p_day, p_span);
  v_start timestamp := date_trunc(p_span, p_day::timestamp);
begin
  if to_regclass('posthouse.' || quote_ident(v_name)) is not null then
    return false;
  end if;
  execute format('create table posthouse.%I (like posthouse.%I including defaults including constraints)',
                 v_name, p_table);
  execute format(
    'alter table posthouse.%I attach partition posthouse.%I for values from (%L) to (%L)',
    p_table, v_name, v_start at time zone 'UTC', (v_start + ('1 ' || p_span)::interval) at time zone 'UTC');
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
    select distinct k.relation, k.span, date_trunc(k.span, d)::date as day
    from posthouse.effective_retention_rules() as k
    cross join generate_series(v_today::timestamp, v_today::timestamp + make_interval(days => p_days_ahead),
                               interval '1 day') as d
    where k.relation in (select posthouse.partitioned_tables())
    order by 1, 3
  loop
    begin
      v_made := v_made + posthouse.create_partition(v_part.relation, v_part.day, v_part.span)::integer;
    exception
      when check_violation then null;   -- the default partition holds rows of that day
      when lock_not_available then null; -- busy: the next round tries again
    end;
  end loop;
  return v_made;
end $$;

-- The number of days for which a table keeps rows; with p_tenant_days, those of a tenant with its own setting. p_days:
-- {"default": 30, "logs": 7, …}. A tenant's days replace the default; a table with its own setting is kept for that
-- time, but no longer than its tenant's jobs.
create or replace function posthouse.retention_days_of(p_days jsonb, k posthouse.kept, p_tenant_days double precision default null)
returns double precision
language sql immutable as $$
  select case
    when k.of_jobs or t.days is not null then least(s.own, coalesce(t.days, s.general))
    else coalesce(s.own, s.general) end
  from (select (p_days ->> k.thing)::double precision, (p_days ->> 'default')::double precision) as s (own, general)
  cross join (select case when k.tenant is not null then p_tenant_days end) as t (days)
$$;

-- The times before which rows have expired: for the general setting, and for each tenant with its own. Whole days only.
create or replace function posthouse.cutoffs(
  p_days jsonb, k posthouse.kept, out general timestamptz, out tenants jsonb, out latest timestamptz)
language plpgsql stable as $$
declare
  v_now timestamptz := posthouse.now();
begin
  general := date_trunc('day', v_now - make_interval(secs => 86400 * posthouse.retention_days_of(p_days, k)), 'UTC');
  select coalesce(jsonb_object_agg(t.id, date_trunc(
           'day', v_now - make_interval(secs => 86400 * posthouse.retention_days_of(p_days, k, t.retention_days)), 'UTC')), '{}')
  into tenants
  from posthouse.tenants as t where t.retention_days is not null and k.tenant is not null;
  select greatest(general, max(c.value::timestamptz)) into latest from jsonb_each_text(tenants) as c;
end $$;

-- The retention actions to take, oldest first. tenants: those who keep their rows (shrink), or whose rows are deleted
-- (purge).
create or replace function posthouse.retention_plan(p_days jsonb)
returns table (thing text, relation text, name text, action text, tenants text[], starts_at timestamptz,
               ends_at timestamptz, rows bigint, bytes bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  k posthouse.kept;
  v_cut record;
begin
  return query
    select k.thing, g.relation, g.name, 'finish', g.tenants, null::timestamptz, null::timestamptz, s.rows, s.bytes
    from posthouse.detached as g
    join posthouse.effective_retention_rules() as k on k.relation = g.relation
    cross join lateral posthouse.table_size(g.name) as s
    order by g.name;
  for k in select * from posthouse.effective_retention_rules() as t order by t.of_jobs, t.relation loop
    select * into v_cut from posthouse.cutoffs(p_days, k);
    return query
      select k.thing, k.relation, d.partition, d.action,
             case d.action when 'purge' then d.leavers when 'shrink' then d.keepers else '{}' end,
             d.starts_at, d.ends_at, s.rows, s.bytes
      from (
        select p.*, case
            when p.ends_at <= v_cut.general and p.keepers = '{}' then 'drop'
            when p.ends_at <= v_cut.general and '' <> all (p.purged) then 'shrink'
            when p.leavers <> '{}' then 'purge' end as action
        from posthouse.holders(k.relation, v_cut.tenants) as p) as d
      cross join lateral posthouse.table_size(d.partition) as s
      where d.action is not null
      order by d.starts_at;
    return query
      select k.thing, k.relation, o.name, 'delete', '{}'::text[], null::timestamptz, null::timestamptz, s.rows, s.bytes
      from unnest(posthouse.unpartitioned_tables(k)) as o (name)
      cross join lateral posthouse.table_size(o.name) as s
      where posthouse.has_old_rows(o.name, k, p_days);
  end loop;
end $$;

-- The partitions of a table, with the tenants that still keep their rows in them, those whose rows have expired, and
-- those whose rows were deleted already.
create or replace function posthouse.holders(p_relation text, p_cutoffs jsonb)
returns table (partition text, starts_at timestamptz, ends_at timestamptz, keepers text[], leavers text[], purged text[])
language sql stable as $$
  select p.partition, p.starts_at, p.ends_at,
         array(select c.key from jsonb_each_text(p_cutoffs) as c where c.value::timestamptz < p.ends_at order by 1),
         array(select c.key from jsonb_each_text(p_cutoffs) as c
               where c.value::timestamptz >= p.ends_at and c.key <> all (m.marks) order by 1),
         m.marks
  from posthouse.partitions() as p
  cross join lateral (
    select array(select u.tenant_id from posthouse.purged as u where u.partition = p.partition)) as m (marks)
  where p.relation = p_relation
$$;

-- The estimated number of rows of a table, from the statistics of Postgres, and its size on disk.
create or replace function posthouse.table_size(p_name text, out rows bigint, out bytes bigint)
language sql stable as $$
  select greatest(c.reltuples, s.n_live_tup, 0)::bigint, pg_total_relation_size(c.oid)
  from pg_class as c left join pg_stat_all_tables as s on s.relid = c.oid
  where c.oid = to_regclass('posthouse.' || quote_ident(p_name))
$$;

-- The tables in which rows are deleted one by one: a table without partitions, or the default partition of a
-- partitioned one. The audit is never deleted row by row.
create or replace function posthouse.unpartitioned_tables(k posthouse.kept) returns text[]
language sql stable as $$
  select array(
    select c.relname::text from pg_class as c
    where c.relnamespace = 'posthouse'::regnamespace and k.relation <> 'audit'
      and (c.relname = k.relation and c.relkind = 'r' or c.oid = (
        select p.partdefid from pg_partitioned_table as p
        where p.partrelid = to_regclass('posthouse.' || quote_ident(k.relation)))))
$$;

-- Rows in default partitions, counted up to a limit.
create or replace function posthouse.strays(p_limit integer) returns table (relation text, strays bigint)
language plpgsql stable as $$
begin
  for relation in select posthouse.partitioned_tables() loop
    execute format('select count(*) from (select from %s limit $1) as s', (
      select p.partdefid::regclass from pg_partitioned_table as p
      where p.partrelid = ('posthouse.' || quote_ident(relation))::regclass and p.partdefid <> 0))
    into strays using p_limit;
    return next;
  end loop;
end $$;

-- The SQL condition for expired rows.
create or replace function posthouse.expired_condition(k posthouse.kept, p_days jsonb) returns text
language sql stable as $$
  select case
    when k.tenant is null then format('%I < %L::timestamptz', k.at, c.general)
    else format('%1$I < %2$L::timestamptz and %1$I < coalesce((%3$L::jsonb ->> %4$I)::timestamptz, %5$L::timestamptz)',
                k.at, c.latest, c.tenants, k.tenant, c.general) end
  from posthouse.cutoffs(p_days, k) as c
$$;

create or replace function posthouse.has_old_rows(p_name text, k posthouse.kept, p_days jsonb) returns boolean
language plpgsql stable as $$
declare
  v_found boolean;
begin
  execute format('select exists (select from posthouse.%I where %s)', p_name, posthouse.expired_condition(k, p_days)) into v_found;
  return v_found;
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
  if exists (select from posthouse.detached where name = p_name || '_detached') then
    raise lock_not_available;  -- an earlier partition of that name is still being cleared
  end if;
  execute format('alter table posthouse.%I detach partition posthouse.%I', p_relation, p_name);
  execute format('alter table posthouse.%I rename to %I', p_name, p_name || '_detached');
  insert into posthouse.detached (name, relation, tenants) values (p_name || '_detached', p_relation, p_kept_tenants);
  delete from posthouse.purged where partition = p_name;
end $$;

-- Deletes rows that belong to the jobs on some pages of a detached partition. Returns the page to continue with, null
-- at the end.
create or replace function posthouse.delete_detached_job_data(p_name text, p_page bigint default 0, p_pages integer default 2000)
returns bigint
language plpgsql as $$
declare
  v_detached posthouse.detached;
  v_jobs record;
begin
  select * into v_detached from posthouse.detached where name = p_name;
  if not found or v_detached.relation <> 'history' or not posthouse.has_job_data() then
    return null;
  end if;
  perform posthouse.set_short_lock_timeout();
  execute format(
    'select array_agg(id) as ids, array_agg(tenant_id) as tenants, array_agg(dedupe_key) as dedupes,
            array_agg(order_key) as orders, array_agg(id) filter (where payload is null) as aside
     from posthouse.%I where ctid >= $1 and ctid < $2 and tenant_id <> all ($3)
       and ($4 or payload is null or dedupe_key is not null or order_key is not null)', p_name)
  into v_jobs
  using format('(%s,0)', p_page)::tid, format('(%s,0)', p_page + p_pages)::tid, v_detached.tenants,
        exists (select from posthouse.blocks) or exists (select from posthouse.parts)
        or exists (select from posthouse.steps) or exists (select from posthouse.artifacts);
  if v_jobs.ids is not null then
    perform posthouse.delete_job_data(v_jobs.ids, v_jobs.tenants, v_jobs.dedupes, v_jobs.orders, v_jobs.aside);
  end if;
  return posthouse.next_page(p_name, p_page + p_pages);
end $$;

create or replace function posthouse.next_page(p_name text, p_page bigint) returns bigint
language sql stable as $$
  select p_page where p_page < pg_relation_size(to_regclass('posthouse.' || quote_ident(p_name)))
    / current_setting('block_size')::integer
$$;

create or replace function posthouse.has_job_data() returns boolean
language plpgsql stable as $$
begin
  return exists (select from posthouse.payloads) or exists (select from posthouse.dedupes)
    or exists (select from posthouse.order_tails) or exists (select from posthouse.blocks)
    or exists (select from posthouse.parts) or exists (select from posthouse.steps)
    or exists (select from posthouse.artifacts);
end $$;

-- Deletes the rows that belong to deleted jobs. Jobs that wait for one of them to succeed are canceled, since it can no
-- longer be retried.
create or replace function posthouse.delete_job_data(
  p_ids uuid[], p_tenants text[], p_dedupes text[], p_orders text[], p_aside uuid[]
) returns void
language plpgsql as $$
declare
  v_hopeless uuid[] := array(
    select b.job_id from posthouse.blocks as b where b.depends_on = any (p_ids) and not b.line);
begin
  if v_hopeless <> '{}' then
    perform posthouse.finish_queued(v_hopeless, 'canceled', jsonb_build_object(
      'type', 'DependencyFailed', 'message',
      'a job that this one depends on did not succeed, and is not kept any longer'));
  end if;
  delete from posthouse.dedupes where ctid = any (array(
    select d.ctid from posthouse.dedupes as d
    join unnest(p_ids, p_tenants, p_dedupes) as u (id, tenant_id, dedupe_key)
      on d.tenant_id = u.tenant_id and d.dedupe_key = u.dedupe_key and d.job_id = u.id
    order by d.tenant_id, d.dedupe_key for update of d));
  delete from posthouse.order_tails where ctid = any (array(
    select o.ctid from posthouse.order_tails as o
    join unnest(p_ids, p_tenants, p_orders) as u (id, tenant_id, order_key)
      on o.tenant_id = u.tenant_id and o.order_key = u.order_key and o.job_id = u.id
    order by o.tenant_id, o.order_key for update of o));
  delete from posthouse.payloads where job_id = any (p_aside);
  if exists (select from posthouse.parts) then
    delete from posthouse.parts where job_id = any (p_ids);
  end if;
  if exists (select from posthouse.steps) then
    delete from posthouse.steps where job_id = any (p_ids);
  end if;
  if exists (select from posthouse.artifacts) then
    delete from posthouse.artifacts where job_id = any (p_ids);
  end if;
end $$;

-- Drops a detached partition. Returns false if it is still locked.
create or replace function posthouse.drop_detached_partition(p_name text) returns boolean
language plpgsql as $$
begin
  if not exists (select from posthouse.detached where name = p_name) then
    return true;
  end if;
  perform posthouse.set_short_lock_timeout();
  execute format('drop table if exists posthouse.%I', p_name);
  delete from posthouse.detached where name = p_name;
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
  k posthouse.kept;
begin
  select * into v_part from posthouse.partitions() as p where p.partition = p_name;
  if not found or not pg_try_advisory_xact_lock(7705, 2) or not posthouse.can_lock_partition(v_part.relation, p_name) then
    return null;
  elsif exists (select from posthouse.purged where partition = p_name and tenant_id = '') then
    return 0;  -- another keeper was quicker
  end if;
  select * into k from posthouse.effective_retention_rules() as t where t.relation = v_part.relation;
  execute format('drop table if exists posthouse.%I', v_copy);
  execute format('create table posthouse.%I (like posthouse.%I including defaults including constraints including indexes)',
                 v_copy, v_part.relation);
  perform posthouse.secure_partition(v_part.relation, v_copy);
  execute format('insert into posthouse.%1$I (%4$s) select %4$s from posthouse.%2$I where %3$I = any ($1)',
                 v_copy, p_name, k.tenant, posthouse.columns_of(p_name))
  using p_tenants;
  get diagnostics v_rows = row_count;
  -- With this constraint, ATTACH does not check the rows while it blocks other transactions.
  execute format('alter table posthouse.%I add constraint within_range check (%I >= %L and %I < %L)',
                 v_copy, k.at, v_part.starts_at, k.at, v_part.ends_at);
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
    raise exception 'let go' using errcode = 'PH090';
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
  insert into posthouse.purged (partition, tenant_id)
  select p_name, t.id from (
    select '' union select id from posthouse.tenants where retention_days is not null) as t (id)
  where t.id <> all (p_tenants);
  return true;
exception
  when lock_not_available then return false;
end $$;

-- Deletes the rows of these tenants from some pages of a partition, and the rows that belong to them. next_page: the
-- page to continue with, null at the end.
create or replace function posthouse.delete_tenant_rows(
  p_name text, p_tenants text[], p_page bigint default 0, p_pages integer default 2000,
  out rows bigint, out next_page bigint)
language plpgsql as $$
declare
  v_from tid := format('(%s,0)', p_page);
  v_to tid := format('(%s,0)', p_page + p_pages);
  k posthouse.kept;
begin
  rows := 0;
  select t.* into k from posthouse.effective_retention_rules() as t
  join posthouse.partitions() as p on p.relation = t.relation and p.partition = p_name;
  if not found then
    return;
  end if;
  perform posthouse.set_short_lock_timeout();
  rows := posthouse.delete_rows(
    p_name, k.relation = 'history',
    format('ctid >= %L and ctid < %L and %I = any (%L::text[])', v_from, v_to, k.tenant, p_tenants));
  next_page := posthouse.next_page(p_name, p_page + p_pages);
  if next_page is null then
    insert into posthouse.purged (partition, tenant_id) select p_name, t from unnest(p_tenants) as t
    on conflict do nothing;
  end if;
end $$;

-- Deletes rows; for jobs, also the rows that belong to them. Returns how many.
create or replace function posthouse.delete_rows(p_name text, p_jobs boolean, p_condition text) returns bigint
language plpgsql as $$
declare
  v_jobs record;
  v_rows bigint;
begin
  if not p_jobs then
    execute format('delete from posthouse.%I where %s', p_name, p_condition);
    get diagnostics v_rows = row_count;
    return v_rows;
  end if;
  execute format(
    'with over as (delete from posthouse.%I where %s returning id, tenant_id, dedupe_key, order_key, payload)
     select array_agg(id) as ids, array_agg(tenant_id) as tenants, array_agg(dedupe_key) as dedupes,
            array_agg(order_key) as orders, array_agg(id) filter (where payload is null) as aside from over',
    p_name, p_condition)
  into v_jobs;
  if v_jobs.ids is null then
    return 0;
  end if;
  perform posthouse.delete_job_data(v_jobs.ids, v_jobs.tenants, v_jobs.dedupes, v_jobs.orders, v_jobs.aside);
  return cardinality(v_jobs.ids);
end $$;

-- Deletes some of the expired rows of a table without partitions, or of a default partition; returns how many.
create or replace function posthouse.delete_old(p_name text, p_days jsonb, p_limit integer default 5000) returns bigint
language plpgsql as $$
declare
  k posthouse.kept;
begin
  select t.* into k from posthouse.effective_retention_rules() as t where p_name = any (posthouse.unpartitioned_tables(t));
  if not found then
    return 0;
  end if;
  perform posthouse.set_short_lock_timeout();
  return posthouse.delete_rows(
    p_name, k.relation = 'history',
    format('ctid = any (array(select ctid from posthouse.%I where %s limit %s))',
           p_name, posthouse.expired_condition(k, p_days), p_limit));
end $$;

-- Deletes rows that no longer have a meaning: stopped workers, expired dedupe windows, idempotency keys older than a
-- day, progress of deleted jobs.
create or replace function posthouse.tidy(p_before timestamptz) returns integer
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  -- Rows older than any retention that still exist belong to no job or to an active one.
  v_longest timestamptz := least(
    p_before, v_now - make_interval(secs => 86400 * (select max(t.retention_days) from posthouse.tenants as t)));
  v_workers integer;
  v_keys integer;
begin
  delete from posthouse.workers as w
  where w.stopped_at < p_before
    and not exists (select from posthouse.running as r where r.worker_id = w.id);
  get diagnostics v_workers = row_count;
  delete from posthouse.dedupes where not held and until <= v_now;
  get diagnostics v_keys = row_count;
  delete from posthouse.answers where at <= v_now - interval '1 day';
  return v_workers + v_keys + posthouse.delete_orphaned_progress(v_longest) + posthouse.delete_unused_slots()
    + posthouse.delete_old_schedule_runs(p_before) + posthouse.delete_old_alerts(p_before)
    + posthouse.delete_old_undefined_jobs();
end $$;
