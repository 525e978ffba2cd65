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

create or replace function posthouse.effective_retention_rules() returns setof posthouse.retention_rules
language sql stable as $$
  select rule.* from posthouse.retention_rules as rule where to_regclass('posthouse.' || quote_ident(rule.relation)) is not null
  union all
  select t, t, a.attname::text,
         (select attname::text from pg_attribute where attrelid = p.partrelid and attname = 'tenant_id'), false, 'day'
  from posthouse.partitioned_tables() as t
  join pg_partitioned_table as p on p.partrelid = ('posthouse.' || quote_ident(t))::regclass
  join pg_attribute as a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
  where not exists (select from posthouse.retention_rules as rule where rule.relation = t)
$$;

-- The number of days for which a table keeps rows; with p_tenant_days, those of a tenant with its own setting. p_days:
-- {"default": 30, "logs": 7, …}. A tenant's days replace the default; a table with its own setting is kept for that
-- time, but no longer than its tenant's jobs.
create or replace function posthouse.retention_days_of(p_days jsonb, rule posthouse.retention_rules, p_tenant_days double precision default null)
returns double precision
language sql immutable as $$
  select case
    when rule.follows_jobs or t.days is not null then least(s.own, coalesce(t.days, s.general))
    else coalesce(s.own, s.general) end
  from (select (p_days ->> rule.category)::double precision, (p_days ->> 'default')::double precision) as s (own, general)
  cross join (select case when rule.tenant_column is not null then p_tenant_days end) as t (days)
$$;

-- The times before which rows have expired: for the general setting, and for each tenant with its own. Whole days only.
create or replace function posthouse.cutoffs(
  p_days jsonb, rule posthouse.retention_rules, out general timestamptz, out tenants jsonb, out latest timestamptz)
language plpgsql stable as $$
declare
  v_now timestamptz := posthouse.now();
begin
  general := date_trunc('day', v_now - make_interval(secs => 86400 * posthouse.retention_days_of(p_days, rule)), 'UTC');
  select coalesce(jsonb_object_agg(t.id, date_trunc(
           'day', v_now - make_interval(secs => 86400 * posthouse.retention_days_of(p_days, rule, t.retention_days)), 'UTC')), '{}')
  into tenants
  from posthouse.tenants as t where t.retention_days is not null and rule.tenant_column is not null;
  select greatest(general, max(c.value::timestamptz)) into latest from jsonb_each_text(tenants) as c;
end $$;

-- The retention actions to take, oldest first. tenants: those who keep their rows (shrink), or whose rows are deleted
-- (purge).
create or replace function posthouse.retention_plan(p_days jsonb)
returns table (category text, relation text, name text, action text, tenants text[], starts_at timestamptz,
               ends_at timestamptz, rows bigint, bytes bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  rule posthouse.retention_rules;
  v_cut record;
begin
  return query
    select rule.category, g.relation, g.partition, 'finish', g.copied_tenants, null::timestamptz, null::timestamptz, s.rows, s.bytes
    from posthouse.detached_partitions as g
    join posthouse.effective_retention_rules() as rule on rule.relation = g.relation
    cross join lateral posthouse.table_size(g.partition) as s
    order by g.partition;
  for rule in select * from posthouse.effective_retention_rules() as t order by t.follows_jobs, t.relation loop
    select * into v_cut from posthouse.cutoffs(p_days, rule);
    return query
      select rule.category, rule.relation, d.partition, d.action,
             case d.action when 'purge' then d.expired_tenants when 'shrink' then d.retaining_tenants else '{}' end,
             d.starts_at, d.ends_at, s.rows, s.bytes
      from (
        select p.*, case
            when p.ends_at <= v_cut.general and p.retaining_tenants = '{}' then 'drop'
            when p.ends_at <= v_cut.general and '' <> all (p.purged_tenants) then 'shrink'
            when p.expired_tenants <> '{}' then 'purge' end as action
        from posthouse.partition_tenants(rule.relation, v_cut.tenants) as p) as d
      cross join lateral posthouse.table_size(d.partition) as s
      where d.action is not null
      order by d.starts_at;
    return query
      select rule.category, rule.relation, o.name, 'delete', '{}'::text[], null::timestamptz, null::timestamptz, s.rows, s.bytes
      from unnest(posthouse.unpartitioned_tables(rule)) as o (name)
      cross join lateral posthouse.table_size(o.name) as s
      where posthouse.has_old_rows(o.name, rule, p_days);
  end loop;
end $$;

-- The partitions of a table, with the tenants that still keep their rows in them, those whose rows have expired, and
-- those whose rows were deleted already.
create or replace function posthouse.partition_tenants(p_relation text, p_cutoffs jsonb)
returns table (partition text, starts_at timestamptz, ends_at timestamptz, retaining_tenants text[], expired_tenants text[], purged_tenants text[])
language sql stable as $$
  select p.partition, p.starts_at, p.ends_at,
         array(select c.key from jsonb_each_text(p_cutoffs) as c where c.value::timestamptz < p.ends_at order by 1),
         array(select c.key from jsonb_each_text(p_cutoffs) as c
               where c.value::timestamptz >= p.ends_at and c.key <> all (m.tenants) order by 1),
         m.tenants
  from posthouse.partitions() as p
  cross join lateral (
    select array(select u.tenant_id from posthouse.purged_tenants as u where u.partition = p.partition)) as m (tenants)
  where p.relation = p_relation
$$;

-- The SQL condition for expired rows.
create or replace function posthouse.expired_condition(rule posthouse.retention_rules, p_days jsonb) returns text
language sql stable as $$
  select case
    when rule.tenant_column is null then format('%I < %L::timestamptz', rule.time_column, c.general)
    else format('%1$I < %2$L::timestamptz and %1$I < coalesce((%3$L::jsonb ->> %4$I)::timestamptz, %5$L::timestamptz)',
                rule.time_column, c.latest, c.tenants, rule.tenant_column, c.general) end
  from posthouse.cutoffs(p_days, rule) as c
$$;

create or replace function posthouse.has_old_rows(p_name text, rule posthouse.retention_rules, p_days jsonb) returns boolean
language plpgsql stable as $$
declare
  v_found boolean;
begin
  execute format('select exists (select from posthouse.%I where %s)', p_name, posthouse.expired_condition(rule, p_days)) into v_found;
  return v_found;
end $$;

-- Deletes rows that belong to the jobs on some pages of a detached partition. Returns the page to continue with, null
-- at the end.
create or replace function posthouse.delete_detached_job_data(p_name text, p_page bigint default 0, p_pages integer default 2000)
returns bigint
language plpgsql as $$
declare
  v_detached posthouse.detached_partitions;
  v_jobs record;
begin
  select * into v_detached from posthouse.detached_partitions where partition = p_name;
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
  using format('(%s,0)', p_page)::tid, format('(%s,0)', p_page + p_pages)::tid, v_detached.copied_tenants,
        exists (select from posthouse.job_dependencies) or exists (select from posthouse.parts)
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
  return exists (select from posthouse.payloads) or exists (select from posthouse.dedupe_keys)
    or exists (select from posthouse.order_tails) or exists (select from posthouse.job_dependencies)
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
    select b.job_id from posthouse.job_dependencies as b where b.depends_on = any (p_ids) and not b.keeps_order);
begin
  if v_hopeless <> '{}' then
    perform posthouse.finish_queued(v_hopeless, 'canceled', jsonb_build_object(
      'type', 'DependencyFailed', 'message',
      'a job that this one depends on did not succeed, and is not kept any longer'));
  end if;
  delete from posthouse.dedupe_keys where ctid = any (array(
    select d.ctid from posthouse.dedupe_keys as d
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

-- Deletes the rows of these tenants from some pages of a partition, and the rows that belong to them. next_page: the
-- page to continue with, null at the end.
create or replace function posthouse.delete_tenant_rows(
  p_name text, p_tenants text[], p_page bigint default 0, p_pages integer default 2000,
  out rows bigint, out next_page bigint)
language plpgsql as $$
declare
  v_from tid := format('(%s,0)', p_page);
  v_to tid := format('(%s,0)', p_page + p_pages);
  rule posthouse.retention_rules;
begin
  rows := 0;
  select t.* into rule from posthouse.effective_retention_rules() as t
  join posthouse.partitions() as p on p.relation = t.relation and p.partition = p_name;
  if not found then
    return;
  end if;
  perform posthouse.set_short_lock_timeout();
  rows := posthouse.delete_rows(
    p_name, rule.relation = 'history',
    format('ctid >= %L and ctid < %L and %I = any (%L::text[])', v_from, v_to, rule.tenant_column, p_tenants));
  next_page := posthouse.next_page(p_name, p_page + p_pages);
  if next_page is null then
    insert into posthouse.purged_tenants (partition, tenant_id) select p_name, t from unnest(p_tenants) as t
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
create or replace function posthouse.delete_old_rows(p_name text, p_days jsonb, p_limit integer default 5000) returns bigint
language plpgsql as $$
declare
  rule posthouse.retention_rules;
begin
  select t.* into rule from posthouse.effective_retention_rules() as t where p_name = any (posthouse.unpartitioned_tables(t));
  if not found then
    return 0;
  end if;
  perform posthouse.set_short_lock_timeout();
  return posthouse.delete_rows(
    p_name, rule.relation = 'history',
    format('ctid = any (array(select ctid from posthouse.%I where %s limit %s))',
           p_name, posthouse.expired_condition(rule, p_days), p_limit));
end $$;

-- Deletes rows that no longer have a meaning: stopped workers, expired dedupe windows, idempotency keys older than a
-- day, progress of deleted jobs.
create or replace function posthouse.delete_stale_rows(p_before timestamptz) returns integer
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
  delete from posthouse.dedupe_keys where not is_active and expires_at <= v_now;
  get diagnostics v_keys = row_count;
  delete from posthouse.idempotency_keys where at <= v_now - interval '1 day';
  return v_workers + v_keys + posthouse.delete_orphaned_progress(v_longest) + posthouse.delete_unused_slots()
    + posthouse.delete_old_schedule_runs(p_before) + posthouse.delete_old_alerts(p_before)
    + posthouse.delete_old_undefined_jobs();
end $$;
