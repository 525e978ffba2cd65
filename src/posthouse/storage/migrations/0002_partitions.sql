-- History, past attempts (by the day of their end) and log lines are partitioned. Partitions are made ahead; the
-- default partition only catches what would otherwise fail, and the doctor reports it when it is not empty.

create function posthouse.partition_name(p_table text, p_day date) returns text
language sql immutable as $$ select format('%s_%s', p_table, to_char(p_day, 'YYYYMMDD')) $$;

-- Makes one day's partition. Attached rather than created in place: ATTACH lets writers go on.
create function posthouse.make_partition(p_table text, p_day date) returns boolean
language plpgsql as $$
declare
  v_name text := posthouse.partition_name(p_table, p_day);
begin
  if to_regclass('posthouse.' || v_name) is not null then
    return false;
  end if;
  execute format('create table posthouse.%I (like posthouse.%I including defaults including constraints)',
                 v_name, p_table);
  execute format(
    'alter table posthouse.%I attach partition posthouse.%I for values from (%L) to (%L)',
    p_table, v_name,
    p_day::timestamp at time zone 'UTC', (p_day + 1)::timestamp at time zone 'UTC');
  return true;
end $$;

create function posthouse.partitioned_tables() returns setof text
language sql stable as $$
  select relname::text from pg_class
  where relkind = 'p' and relnamespace = 'posthouse'::regnamespace order by relname
$$;

-- Makes today's partitions and those of the days ahead; returns how many were missing. One maker at a
-- time. A day whose rows already went to the default partition is left to it.
create function posthouse.make_partitions(p_days_ahead integer default 7) returns integer
language plpgsql as $$
declare
  v_made integer := 0;
  v_day date;
  v_table text;
begin
  if not pg_try_advisory_xact_lock(7705, 1) then
    return 0;
  end if;
  perform set_config('lock_timeout', '2s', true);
  for v_table in select * from posthouse.partitioned_tables() loop
    for v_day in
      select d::date from generate_series(
        (posthouse.now() at time zone 'UTC')::date,
        (posthouse.now() at time zone 'UTC')::date + p_days_ahead, interval '1 day') as d
    loop
      begin
        v_made := v_made + posthouse.make_partition(v_table, v_day)::integer;
      exception
        when check_violation then null;   -- the default partition holds rows of that day
        when lock_not_available then null; -- busy: the next round tries again
      end;
    end loop;
  end loop;
  return v_made;
end $$;

-- Drops the partitions that ended before p_before, with what hangs on their jobs; returns their names.
create function posthouse.drop_partitions(p_before timestamptz) returns setof text
language plpgsql as $$
declare
  v_part record;
begin
  if not pg_try_advisory_xact_lock(7705, 2) then
    return;
  end if;
  perform set_config('lock_timeout', '2s', true);
  for v_part in
    select c.relname::text as name, p.relname::text as parent
    from pg_inherits as i
    join pg_class as c on c.oid = i.inhrelid
    join pg_class as p on p.oid = i.inhparent
    where p.relnamespace = 'posthouse'::regnamespace and p.relkind = 'p'
      and c.relname ~ '_\d{8}$'
      and to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (p_before at time zone 'UTC')::date
    order by c.relname
  loop
    begin
      if v_part.parent = 'history' then
        execute format('delete from posthouse.payloads as p using posthouse.%I as h
                        where h.payload is null and p.job_id = h.id', v_part.name);
        execute format('delete from posthouse.dedupes as d using posthouse.%I as h
                        where h.dedupe_key is not null and d.tenant_id = h.tenant_id
                          and d.dedupe_key = h.dedupe_key and d.job_id = h.id', v_part.name);
        execute format('delete from posthouse.order_tails as o using posthouse.%I as h
                        where h.order_key is not null and o.tenant_id = h.tenant_id
                          and o.order_key = h.order_key and o.job_id = h.id', v_part.name);
        execute format('delete from posthouse.parts as p using posthouse.%I as h where p.job_id = h.id', v_part.name);
        execute format('delete from posthouse.steps as s using posthouse.%I as h where s.job_id = h.id', v_part.name);
        -- Whoever waits for one of these to succeed after all waits for nothing: nobody can retry it any more.
        execute format('select posthouse.end_queued(array_agg(b.job_id), ''canceled'', $1)
                        from posthouse.blocks as b join posthouse.%I as h on h.id = b.depends_on
                        where not b.line having count(*) > 0', v_part.name)
          using jsonb_build_object('type', 'DependencyFailed', 'message',
            'a job that this one depends on did not succeed, and is not kept any longer');
      end if;
      execute format('drop table posthouse.%I', v_part.name);
      return next v_part.name;
    exception
      when lock_not_available then null; -- busy: the next round tries again
    end;
  end loop;
end $$;

-- Forgets what no longer means anything: workers long gone, dedupe windows that have passed, progress of jobs
-- that are gone.
create function posthouse.tidy(p_before timestamptz) returns integer
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_workers integer;
  v_keys integer;
begin
  delete from posthouse.workers as w
  where w.stopped_at < p_before
    and not exists (select from posthouse.running as r where r.worker_id = w.id);
  get diagnostics v_workers = row_count;
  delete from posthouse.dedupes where not held and until <= v_now;
  get diagnostics v_keys = row_count;
  return v_workers + v_keys + posthouse.purge_progress(p_before) + posthouse.tidy_slots()
    + posthouse.tidy_schedules(p_before);
end $$;

select posthouse.make_partitions();
