-- now() is volatile, as its body is, so that it is inlined: declared stable, each call cost 25 us. Read it into a
-- variable before comparing columns with it, or no index is used.

-- Public. Returns the time by the clock of Posthouse, which tests can set.
create or replace function posthouse.now() returns timestamptz
language sql volatile parallel safe as 'select clock_timestamp()';

create or replace function posthouse.reject_audit_change() returns trigger
language plpgsql as $$
begin
  raise exception 'the audit log is append-only: % is not allowed', lower(tg_op) using errcode = 'PH017';
end $$;

-- A UUIDv7: 48 bits of milliseconds, 12 bits of their fraction, then random bits, as the clients make them: ids of one
-- session sort by age. Postgres 18 has a built-in function for this; 15 to 17 do not.
create or replace function posthouse.new_id() returns uuid
language sql volatile as $$
  select (
    overlay(lpad(to_hex((extract(epoch from clock_timestamp()) * 4096000)::bigint), 15, '0') placing '7' from 13 for 0)
    || substring(gen_random_uuid()::text from 20))::uuid
$$;

create or replace function posthouse.discard_blob() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE' or old.blob_key <> new.blob_key then
    insert into posthouse.discarded_blobs (blob_key) values (old.blob_key) on conflict do nothing;
  end if;
  return null;
end $$;

-- Retires functions that are no longer part of the schema; a later migration drops them. Dropping them at once would
-- fail calls, since Postgres does not lock functions: a session can look up a function before the migration commits and
-- call it afterwards, and a function that is running then may still call others by name. A function is renamed if its
-- name is now used with other parameters, or will be (p_rename), so that calls find the new one.
create or replace function posthouse.retire_functions(p_functions oid[], p_rename boolean default false) returns void
language plpgsql as $$
declare
  v_old record;
begin
  for v_old in
    select p.oid, p.oid::regprocedure::text as signature, left(p.proname, 40) as name, exists (
        select from pg_proc as n
        where n.pronamespace = p.pronamespace and n.proname = p.proname and n.oid <> all (p_functions)) as is_replaced
    from pg_proc as p
    where p.oid = any (p_functions) and coalesce(obj_description(p.oid, 'pg_proc'), '') not like 'Retired %'
      and not exists (select from pg_depend as d where d.objid = p.oid and d.deptype = 'e')
  loop
    execute format('comment on function %s is %L', v_old.signature,
                   to_char(now() at time zone 'UTC', '"Retired "YYYY-MM-DD HH24:MI:SS"Z"'));
    if p_rename or v_old.is_replaced then
      execute format('alter function %s rename to %I', v_old.signature, format('%s_%s', v_old.name, v_old.oid));
    end if;
  end loop;
end $$;

-- Drops functions that were retired more than p_age ago, apart from those that views or defaults of users still use.
create or replace function posthouse.drop_retired_functions(p_age interval default '1 minute') returns void
language plpgsql as $$
declare
  v_old text;
begin
  for v_old in
    select p.oid::regprocedure::text from pg_proc as p
    cross join lateral regexp_match(obj_description(p.oid, 'pg_proc'), '^Retired (.*)') as retired (at)
    where p.pronamespace = 'posthouse'::regnamespace and retired.at[1]::timestamptz <= now() - p_age
  loop
    begin
      execute format('drop function %s', v_old);
    exception when dependent_objects_still_exist or insufficient_privilege then
      raise warning 'the retired function % was not dropped: %', v_old, sqlerrm;
    end;
  end loop;
end $$;
