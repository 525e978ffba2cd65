-- Who may see what.
--
-- Two roles stand between people and tables. posthouse_engine may do all that the engine does: grant it to programs
-- that enqueue or work. posthouse_tenant sees the rows of one tenant and no others, whatever it is asked:
--
--   begin;
--   select set_config('role', 'posthouse_tenant', true), set_config('posthouse.tenant', 'acme', true);
--   …
--   commit;
--
-- Both settings end with the transaction, so a transaction pooler hands none of it on. Without a tenant there are
-- no rows. It writes only through functions that run with the rights of their owner and take the tenant from the setting.

-- Keys of the API. Of a secret of 256 random bits a plain hash is enough: there is nothing to guess it by.
create table posthouse.keys (
  id uuid primary key,
  prefix text not null unique,
  hash bytea not null,
  name text not null,
  role text not null,
  tenant_id text,
  queues text[],
  created_by text not null,
  created_at timestamptz not null default posthouse.now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  constraint keys_role_known check (
    role in ('super-admin', 'tenant-admin', 'tenant-viewer', 'event-emitter', 'worker')),
  constraint keys_have_a_tenant check (tenant_id is not null or role in ('super-admin', 'worker')),
  constraint keys_queues_of_workers check (queues is null or role = 'worker')
);

create function posthouse.create_key(p_key jsonb, p_hash bytea, p_actor text default null) returns void
language plpgsql as $$
begin
  insert into posthouse.keys (id, prefix, hash, name, role, tenant_id, queues, created_by, expires_at)
  select k.id, k.prefix, p_hash, k.name, k.role, k.tenant_id, k.queues, posthouse.actor(p_actor), k.expires_at
  from jsonb_populate_record(null::posthouse.keys, p_key) as k;
  perform posthouse.note(p_actor, 'key.create', p_key ->> 'tenant_id', p_key ->> 'prefix', null, p_key - 'id');
end $$;

-- Ends a key at once: servers that remember it are told. False: it had ended before; null: there is none.
create function posthouse.revoke_key(p_prefix text, p_tenant text default null, p_actor text default null)
returns boolean
language plpgsql as $$
declare
  v_key posthouse.keys;
begin
  select * into v_key from posthouse.keys
  where prefix = p_prefix and (p_tenant is null or tenant_id = p_tenant) for update;
  if not found then
    return null;
  elsif v_key.revoked_at is not null then
    return false;
  end if;
  update posthouse.keys set revoked_at = posthouse.now() where id = v_key.id;
  perform pg_notify('posthouse_keys', p_prefix);
  perform posthouse.note(p_actor, 'key.revoke', v_key.tenant_id, p_prefix, null, null);
  return true;
end $$;

-- Enqueues as the tenant of this transaction; what else the requests say of a tenant does not count.
create function posthouse.tenant_enqueue(p_jobs jsonb) returns table (ordinal integer, id uuid, outcome text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_stranger uuid;
begin
  if posthouse.tenant() is null then
    raise exception 'no tenant' using errcode = 'PH002';
  end if;
  select d.id into v_stranger
  from jsonb_path_query(p_jobs, '$[*].depends_on[*]') as q (value)
  cross join lateral (select (q.value #>> '{}')::uuid) as d (id)
  where not exists (select from posthouse.jobs as j where j.id = d.id and j.tenant_id = posthouse.tenant())
    and not p_jobs @> jsonb_build_array(jsonb_build_object('id', d.id))
  limit 1;
  if found then
    raise exception 'a job depends on %, which does not exist', v_stranger using errcode = 'PH002';
  end if;
  return query
    select e.ordinal, e.id, e.outcome from posthouse.enqueue_many((
      select jsonb_agg(j.value || jsonb_build_object('tenant_id', posthouse.tenant()) order by j.nth)
      from jsonb_array_elements(p_jobs) with ordinality as j (value, nth))) as e;
end $$;

-- Puts a table under row-level security: the engine sees all of it, a tenant what the condition allows.
create function posthouse.guard_table(p_table regclass, p_condition text) returns void
language plpgsql as $$
begin
  execute format('alter table %s enable row level security, force row level security', p_table);
  execute format('create policy engine on %s to posthouse_engine, current_user using (true)', p_table);
  if p_condition is not null then
    execute format('create policy tenant on %s for select to posthouse_tenant using (%s)', p_table, p_condition);
    execute format('grant select on %s to posthouse_tenant', p_table);
  end if;
end $$;

-- Makes the roles and guards every table with rows of tenants; what is done already stays. Needs the right to make
-- roles, unless they are there and granted.
create function posthouse.guard_tenants() returns void
language plpgsql as $$
declare
  v_of_a_job text := (
    select string_agg(format('exists (select from posthouse.%I as j where j.id = job_id)', p.place), ' or ')
    from unnest('{ready,waiting,running,history}'::text[]) as p (place));
  v_role text;
  v_table record;
begin
  foreach v_role in array '{posthouse_engine,posthouse_tenant}'::text[] loop
    if to_regrole(v_role) is null then
      begin
        execute format('create role %I nologin', v_role);
      exception when duplicate_object or unique_violation then null;  -- another database's migration was quicker
      end;
    end if;
    if not pg_has_role(v_role, 'member') then
      execute format('grant %I to current_user', v_role);
    end if;
  end loop;
  for v_table in
    select c.oid::regclass as name, case
        when c.relispartition then null  -- only reached through its table
        when a.attname = 'tenant_id' then 'tenant_id = posthouse.tenant()'
        else v_of_a_job end as condition
    from pg_class as c
    join pg_attribute as a on a.attrelid = c.oid and not a.attisdropped
      and (a.attname = 'tenant_id' or (a.attname = 'job_id' and c.relname in ('payloads', 'blocks')))
    where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p') and not c.relrowsecurity
  loop
    perform posthouse.guard_table(v_table.name, case when v_table.name <> 'posthouse.keys'::regclass then v_table.condition end);
  end loop;
  revoke execute on all functions in schema posthouse from public;
  grant usage on schema posthouse to posthouse_engine, posthouse_tenant;
  grant select, insert, update, delete on all tables in schema posthouse to posthouse_engine;
  grant usage on all sequences in schema posthouse to posthouse_engine;
  grant execute on all functions in schema posthouse to posthouse_engine;
  grant select on posthouse.jobs, posthouse.attempts, posthouse.definitions to posthouse_tenant;
  grant execute on function posthouse.tenant(), posthouse.now(), posthouse.tenant_enqueue(jsonb),
    posthouse.cancel(uuid, text, text), posthouse.reopen(uuid, text, text, boolean) to posthouse_tenant;
end $$;

do $$
begin
  perform posthouse.guard_tenants();
exception when insufficient_privilege then
  -- The queue works without; the API does not start until it is done.
  raise warning 'tenants are not kept apart: %', sqlerrm
    using hint = 'Let an administrator create the roles posthouse_engine and posthouse_tenant and grant both to '
                 'this one; then: select posthouse.guard_tenants()';
end $$;
