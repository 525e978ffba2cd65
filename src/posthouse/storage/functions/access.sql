-- Access control: which rows and functions a tenant may use.
--
-- Two roles control access to the tables. posthouse_engine may do everything that the engine does: grant it to programs
-- that enqueue or work. posthouse_tenant sees the rows of one tenant only, in any query:
--
--   begin;
--   select set_config('role', 'posthouse_tenant', true), set_config('posthouse.tenant', 'acme', true);
--   …
--   commit;
--
-- Both settings end with the transaction, so they do not leak through a transaction pooler. Without a tenant there are
-- no rows. posthouse_tenant writes only through functions that run with the rights of their owner and take the tenant
-- from the setting (effective_tenant), and may call no others. posthouse_engine may become posthouse_tenant; not the
-- other way round.
--
-- Every table has row-level security, forced on its owner too, so that a new table is never forgotten. The engine's
-- policy is `true`, which the planner drops, so claim and finish cost the same as without row-level security.

-- Stores an API key. A tenant has at most p_limit keys that are neither revoked nor expired; the lock keeps concurrent
-- requests from exceeding that.
create or replace function posthouse.create_key(
  p_key jsonb, p_hash bytea, p_actor text default null, p_limit integer default 100
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_key posthouse.keys := jsonb_populate_record(null::posthouse.keys, p_key);
begin
  v_key.tenant_id := posthouse.effective_tenant(v_key.tenant_id);
  if posthouse.tenant() is not null and v_key.role in ('super-admin', 'worker') then
    raise exception 'a key with role % cannot belong to a tenant', v_key.role using errcode = 'PH020';
  elsif v_key.expires_at <= posthouse.now() then
    raise exception 'expires_at must be in the future, not %', v_key.expires_at using errcode = 'PH020';
  end if;
  if v_key.tenant_id is not null then
    perform pg_advisory_xact_lock(hashtext('posthouse.keys'), hashtext(v_key.tenant_id));
    if p_limit <= (select count(*) from posthouse.keys as k
                  where k.tenant_id = v_key.tenant_id and k.revoked_at is null
                    and (k.expires_at is null or k.expires_at > posthouse.now())) then
      raise exception 'tenant "%" already has % API keys (setting keys_per_tenant); revoke one first',
        v_key.tenant_id, p_limit using errcode = 'PH023';
    end if;
  end if;
  insert into posthouse.keys (id, prefix, hash, name, role, tenant_id, queues, may_announce, created_by, expires_at)
  values (v_key.id, v_key.prefix, p_hash, v_key.name, v_key.role, v_key.tenant_id, v_key.queues,
          coalesce(v_key.may_announce, false), posthouse.actor(p_actor), v_key.expires_at);
  perform posthouse.write_audit(p_actor, 'key.create', v_key.tenant_id, v_key.prefix, null, jsonb_build_object(
    'name', v_key.name, 'role', v_key.role, 'tenant_id', v_key.tenant_id, 'queues', v_key.queues,
    'may_announce', coalesce(v_key.may_announce, false), 'expires_at', v_key.expires_at));
end $$;

-- Revokes an API key and ends the logins that were made with it. Servers that have the key cached are notified. Returns
-- false if the key was revoked before, null if there is no such key.
create or replace function posthouse.revoke_key(p_prefix text, p_tenant text default null, p_actor text default null)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_key posthouse.keys;
begin
  p_tenant := posthouse.effective_tenant(p_tenant);
  select * into v_key from posthouse.keys
  where prefix = p_prefix and (p_tenant is null or tenant_id = p_tenant) for update;
  if not found then
    return null;
  elsif v_key.revoked_at is not null then
    return false;
  end if;
  update posthouse.keys set revoked_at = posthouse.now() where id = v_key.id;
  delete from posthouse.sessions where key_prefix = p_prefix;
  perform pg_notify('posthouse_keys', p_prefix);
  perform posthouse.write_audit(p_actor, 'key.revoke', v_key.tenant_id, p_prefix, null, null);
  return true;
end $$;

-- Records that a key was used, at most once a minute, so that a key in heavy use does not cause a write for each
-- request.
create or replace function posthouse.record_key_use(p_prefix text) returns void
language sql as $$
  update posthouse.keys set last_used_at = posthouse.now()
  where prefix = p_prefix and (last_used_at is null or last_used_at < posthouse.now() - interval '1 minute')
$$;

-- The reason why a key may not announce a definition; null if it may. A key for some queues announces only kinds of
-- these queues, and its kinds may send follow-up jobs to these queues only.
create or replace function posthouse.why_not_announced(p_key posthouse.keys, p_new jsonb) returns text
language sql stable as $$
  select case
    when not p_key.may_announce then 'the key may not announce definitions (posthouse keys create --announce)'
    when p_new ->> 'key' like 'posthouse.%' then 'kinds that start with "posthouse." are reserved'
    when p_key.queues is null then null
    when coalesce(p_new ->> 'queue', 'default') <> all (p_key.queues)
      then format('the key may not announce kinds of queue "%s"', coalesce(p_new ->> 'queue', 'default'))
    when d.queue <> all (p_key.queues) then format('the kind exists in queue "%s", which the key does not serve', d.queue)
    when not coalesce(p_new -> 'followup_queues', '[]') <@ to_jsonb(p_key.queues)
      then 'followup_queues names queues that the key does not serve' end
  from (select) as one left join posthouse.definitions as d on d.key = p_new ->> 'key'
$$;

-- Stores what the code of a worker defines: definitions, limits and triggers. Without p_key the worker has a database
-- connection and is trusted. With p_key, the prefix of an API key, only what that key may announce is stored; returns
-- the kinds that were left out, with the reason. Triggers create jobs in any tenant and queue, so a key that is
-- restricted to some queues cannot announce or remove triggers.
create or replace function posthouse.announce_code(
  p_definitions jsonb, p_limits jsonb, p_triggers jsonb, p_key text default null
) returns jsonb
language plpgsql as $$
declare
  v_key posthouse.keys;
  v_left_out jsonb := '{}';
  v_kinds text[];
begin
  if p_key is not null then
    select * into strict v_key from posthouse.keys where prefix = p_key;
    select coalesce(jsonb_object_agg(n.value ->> 'key', w.reason) filter (
             where w.reason is not null and not exists (
               select from posthouse.definitions as d
               where d.key = n.value ->> 'key' and d.announced = n.value - 'key')), '{}'),
           coalesce(jsonb_agg(n.value) filter (where w.reason is null), '[]')
    into v_left_out, p_definitions
    from jsonb_array_elements(p_definitions) as n (value)
    cross join lateral posthouse.why_not_announced(v_key, n.value) as w (reason);
  end if;
  v_kinds := array(select n ->> 'key' from jsonb_array_elements(p_definitions) as n);
  if p_key is not null then
    p_limits := coalesce((
      select jsonb_agg(n.value) from jsonb_array_elements(p_limits) as n (value)
      left join posthouse.limits as l on l.name = n.value ->> 'name'
      where posthouse.is_limit_of(n.value - 'name', v_kinds)
        and (v_key.queues is null or l.kinds is null or l.kinds <@ v_kinds)), '[]');
    p_triggers := coalesce((
      select jsonb_agg(n) from jsonb_array_elements(p_triggers) as n
      where n ->> 'definition_key' = any (v_kinds)), '[]');
  end if;
  perform posthouse.announce(p_definitions, 'key:' || p_key);
  perform posthouse.announce_limits(p_limits, v_kinds, coalesce('key:' || p_key, 'code'));
  if p_key is null or v_key.queues is null then
    perform posthouse.announce_triggers(v_kinds, p_triggers, coalesce('key:' || p_key, 'code'));
  end if;
  return v_left_out;
end $$;

-- Starts a login session, and deletes expired sessions.
create or replace function posthouse.open_session(p_session jsonb, p_hash bytea, p_seconds double precision) returns timestamptz
language plpgsql as $$
declare
  v_new posthouse.sessions := jsonb_populate_record(null::posthouse.sessions, p_session);
begin
  delete from posthouse.sessions where expires_at <= posthouse.now();
  insert into posthouse.sessions (hash, key_prefix, name, role, tenant_id, expires_at)
  values (p_hash, v_new.key_prefix, v_new.name, v_new.role, v_new.tenant_id,
          least(v_new.expires_at, posthouse.now() + make_interval(secs => p_seconds)))
  returning expires_at into v_new.expires_at;
  perform posthouse.write_audit(v_new.name, 'session.open', v_new.tenant_id, v_new.name, null, jsonb_build_object(
    'role', v_new.role, 'expires_at', v_new.expires_at));
  return v_new.expires_at;
end $$;

-- Creates a tenant. A tenant that was never created works too, with the default settings.
create or replace function posthouse.create_tenant(p_id text, p_fields jsonb, p_actor text default null) returns boolean
language plpgsql as $$
begin
  if p_id is null or p_id !~ '^[^[:cntrl:][:space:]]{1,100}$' or p_id = 'posthouse' then
    raise exception 'invalid tenant name %: use 1 to 100 characters without spaces; "posthouse" is reserved', quote_nullable(p_id)
      using errcode = 'PH021';
  end if;
  insert into posthouse.tenants (id) values (p_id) on conflict do nothing;
  if not found then
    return false;
  end if;
  perform posthouse.write_audit(p_actor, 'tenant.create', p_id, p_id, null, p_fields);
  perform posthouse.change_tenant(p_id, p_fields, p_actor);
  return true;
end $$;

-- Changes the given fields of a tenant: label, weight (its share of the workers) and retention_days (how many days its
-- jobs are kept; null: as in the general setting). Returns false if there is no such tenant.
create or replace function posthouse.change_tenant(p_id text, p_fields jsonb, p_actor text default null) returns boolean
language plpgsql as $$
declare
  v_old posthouse.tenants;
  v_new posthouse.tenants;
begin
  if not posthouse.lock_tenant(p_id) then
    return false;
  end if;
  select * into v_old from posthouse.tenants as t where t.id = p_id;
  v_new := jsonb_populate_record(v_old, p_fields - 'id');
  update posthouse.tenants set label = v_new.label, weight = v_new.weight, retention_days = v_new.retention_days
  where id = p_id;
  if v_new.retention_days is distinct from v_old.retention_days then
    -- The record of which tenants' rows were deleted from which partitions is no longer valid.
    delete from posthouse.purged_tenants where tenant_id in (p_id, '');
  end if;
  perform posthouse.write_audit(p_actor, c.action, p_id, p_id, jsonb_build_object(c.field, to_jsonb(v_old) -> c.field),
    jsonb_build_object(c.field, to_jsonb(v_new) -> c.field))
  from (values ('tenant.weight', 'weight'), ('tenant.retention', 'retention_days'), ('tenant.label', 'label'))
    as c (action, field)
  where to_jsonb(v_old) -> c.field <> to_jsonb(v_new) -> c.field;
  return true;
end $$;

-- Internal: bench/retention.py calls it. Everything else calls change_tenant.
create or replace function posthouse.set_tenant_retention(p_tenant text, p_days double precision) returns void
language sql as $$
  select posthouse.change_tenant(p_tenant, jsonb_build_object('retention_days', p_days))
$$;

-- Deletes a tenant: its keys are revoked and its triggers removed; its ended jobs stay until retention deletes them.
-- Returns 'deleted', or 'active' if the tenant has jobs that have not ended; null if there is no such tenant.
create or replace function posthouse.delete_tenant(p_id text, p_actor text default null) returns text
language plpgsql as $$
begin
  perform from posthouse.tenants where id = p_id for update;
  if not found then
    return null;
  elsif exists (select from posthouse.running where tenant_id = p_id)
     or exists (select from posthouse.ready where tenant_id = p_id)
     or exists (select from posthouse.waiting where tenant_id = p_id) then
    return 'active';
  end if;
  perform posthouse.revoke_key(k.prefix, null, p_actor) from posthouse.keys as k
  where k.tenant_id = p_id and k.revoked_at is null;
  perform posthouse.remove_trigger(t.id, null, p_actor) from posthouse.triggers as t where t.tenant_id = p_id;
  delete from posthouse.sessions where tenant_id = p_id;
  delete from posthouse.tenants where id = p_id;
  delete from posthouse.purged_tenants where tenant_id in (p_id, '');
  perform posthouse.write_audit(p_actor, 'tenant.delete', p_id, p_id, null, null);
  return 'deleted';
end $$;

-- Workers, limited to what the caller may see. Workers belong to the operator: a tenant sees their capabilities, but
-- not their names, hosts, processes and metadata.
create or replace function posthouse.visible_workers() returns setof posthouse.workers
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select s.* from posthouse.workers as w
  cross join lateral jsonb_populate_record(w, case when posthouse.tenant() is null then '{}'::jsonb
    else '{"name": "", "hostname": "", "pid": 0, "number": 0, "version": "", "metadata": {}}' end) as s
$$;

create or replace function posthouse.job_visibility_condition(p_column text) returns text
language sql immutable as $$
  select string_agg(format('exists (select from posthouse.%I as j where j.id = %I)', p.job_table, p_column), ' or ')
  from unnest('{ready,waiting,running,history}'::text[]) as p (job_table)
$$;

-- What a tenant may read: the condition on rows, and the columns if not all of them. Tables that are not listed are
-- hidden.
create or replace function posthouse.tenant_policies() returns table (relation text, condition text, columns text)
language sql immutable as $$
  select t, 'tenant_id = posthouse.tenant()', null from unnest(
    '{ready,waiting,running,history,past_attempts,parts,steps,artifacts,log_lines,lanes,triggers,events,trigger_matches,'
    'schedule_runs,alerts,samples,failure_deltas,failure_groups,failure_counts,audit,erasures}'::text[]) as t
  union all values
    ('keys', 'tenant_id = posthouse.tenant()',
     'prefix, name, role, tenant_id, queues, may_announce, created_by, created_at, expires_at, revoked_at, last_used_at'),
    ('tenants', 'id = posthouse.tenant()', null),
    ('payloads', posthouse.job_visibility_condition('job_id'), null),
    ('job_dependencies', posthouse.job_visibility_condition('job_id'), null),
    ('pending_events', 'exists (select from posthouse.events as e where e.id = event_id)', null),
    ('alert_deliveries', 'exists (select from posthouse.alerts as a where a.id = alert_id)', null),
    ('bulk_changes', $c$criteria ->> 'tenant' = posthouse.tenant()$c$, null),
    ('bulk_change_jobs', 'exists (select from posthouse.bulk_changes as b where b.id = bulk_id)', null),
    ('limits', 'tenants is null or posthouse.tenant() = any (tenants)', null),
    ('limit_slots', $c$split_part(slot, E'\x1f', 2) in ('', posthouse.tenant())$c$, null),
    ('queues', 'true', null),
    ('definitions', 'true', null),
    ('alert_types', 'true', 'type, severity'),
    ('sampled_minutes', 'true', null)
$$;

-- The functions that a tenant may call: its writes, which take the tenant from the setting, and the functions that its
-- reads use.
create or replace function posthouse.tenant_functions() returns setof regproc
language sql stable as $$
  select format('posthouse.%I', f)::regproc from unnest(
    '{tenant,now,tenant_enqueue,enqueue_here,attach,acquire_idempotency_key,save_response,cancel,reopen,erase,emit,replay_event,'
    'create_trigger,change_trigger,remove_trigger,fire_trigger,'
    'start_bulk_change,stop_bulk_change,create_key,revoke_key,'
    'select_retriable_jobs,search_jobs,search_sql,search_table_sql,search_queued_sql,search_finished_sql,ready_ids_if_few,fits,external_payload,event_name_matches,'
    'definition_defaults,failure_step,last_served,first_mismatch,without_code_exclusions,visible_workers,is_online,accepts_jobs,slot_of,start_cost,refilled,recent_throughput,'
    'partition_name}'::text[]) as f
$$;

-- Enables row-level security for a table: the engine sees all of it, a tenant what tenant_policies lists. A partition
-- has no tenant policy, because tenants read it through its parent.
create or replace function posthouse.enable_row_security(p_table regclass, p_name text) returns void
language plpgsql as $$
declare
  v_policy record;
begin
  execute format('alter table %s enable row level security, force row level security', p_table);
  execute format('create policy engine on %s to posthouse_engine, current_user using (true)', p_table);
  execute format('grant select, insert, update, delete on %s to posthouse_engine', p_table);
  for v_policy in select * from posthouse.tenant_policies() as p where p.relation = p_name loop
    execute format('create policy tenant on %s for select to posthouse_tenant using (%s)', p_table, v_policy.condition);
    execute format('grant select%s on %s to posthouse_tenant', ' (' || v_policy.columns || ')', p_table);
  end loop;
end $$;

-- Creates the two roles unless they exist, and grants both to the migrating role. Since Postgres 16 the creator of a
-- role administers it without being able to become it, so membership is checked by privilege (usage, set).
create or replace function posthouse.ensure_roles() returns void
language plpgsql as $$
declare
  v_new boolean := current_setting('server_version_num')::integer >= 160000;
  v_role text;
begin
  foreach v_role in array '{posthouse_engine,posthouse_tenant}'::text[] loop
    if to_regrole(v_role) is null then
      execute format('create role %I nologin', v_role);
    end if;
  end loop;
  if not pg_has_role('posthouse_engine', 'posthouse_tenant', case when v_new then 'set' else 'member' end) then
    execute 'grant posthouse_tenant to posthouse_engine' || case when v_new then ' with inherit false, set true' else '' end;
  end if;
  if not pg_has_role('posthouse_engine', case when v_new then 'usage' else 'member' end) then
    execute 'grant posthouse_engine to current_user' || case when v_new then ' with inherit true, set true' else '' end;
  end if;
end $$;

-- Calls ensure_roles, with retries: roles belong to the whole server, and a migration of another database may create
-- them at the same time; no lock that this role may take spans databases. The second transaction waits until the first
-- one has committed, fails on a duplicate ("tuple concurrently updated" has the code internal_error), and finds the
-- roles on the next try.
create or replace function posthouse.make_roles() returns void
language plpgsql
set lock_timeout = 0
as $$
begin
  for v_try in 1..20 loop
    begin
      perform posthouse.ensure_roles();
      return;
    exception when duplicate_object or unique_violation or internal_error or undefined_object then
      if v_try = 20 then
        raise;
      end if;
      perform pg_sleep(0.05 * v_try);
    end;
  end loop;
end $$;

-- Public. Creates the roles posthouse_engine and posthouse_tenant, and row-level security on all tables that lack it.
-- Needs the right to create roles, unless they exist and are granted.
create or replace function posthouse.enable_tenant_isolation() returns void
language plpgsql as $$
declare
  v_name text;
begin
  perform posthouse.make_roles();
  perform posthouse.enable_row_security(c.oid, case when not c.relispartition then c.relname::text end)
  from pg_class as c
  where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p') and not c.relrowsecurity;
  grant usage on schema posthouse to posthouse_engine, posthouse_tenant;
  grant select on all tables in schema posthouse to posthouse_engine;  -- views too
  grant usage on all sequences in schema posthouse to posthouse_engine;
  grant select on posthouse.jobs, posthouse.attempts, posthouse.failures to posthouse_tenant;
  revoke execute on all functions in schema posthouse from public, posthouse_tenant;
  grant execute on all functions in schema posthouse to posthouse_engine;
  for v_name in select f::regprocedure::text from posthouse.tenant_functions() as f loop
    execute format('grant execute on function %s to posthouse_tenant', v_name);
  end loop;
end $$;

-- The last step of every migration. The queue works without the roles; the API does not start without them.
create or replace function posthouse.enforce_tenant_isolation() returns boolean
language plpgsql as $$
begin
  revoke execute on all functions in schema posthouse from public;
  perform posthouse.enable_tenant_isolation();
  return true;
exception when insufficient_privilege then
  raise warning 'tenants are not kept apart: %', sqlerrm;
  return false;
end $$;

-- Public. Returns what the calling role lacks for tenants to be isolated; null if nothing.
create or replace function posthouse.missing_isolation() returns text
language plpgsql stable as $$
declare
  v_become text := case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end;
begin
  if to_regrole('posthouse_engine') is null or to_regrole('posthouse_tenant') is null then
    return 'the roles posthouse_engine and posthouse_tenant do not exist';
  elsif exists (select from pg_class as c where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p')
                and not (c.relrowsecurity and c.relforcerowsecurity)) then
    return 'tables are not under row-level security';
  elsif not pg_has_role('posthouse_tenant', v_become) then
    return format('role %I is not a member of posthouse_tenant', current_user);
  end if;
  return null;
end $$;
