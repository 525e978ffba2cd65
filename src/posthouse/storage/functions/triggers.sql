-- Triggers and events: rules that create jobs.
--
-- An *event* records that something happened in an application, in the application's own transaction. A *trigger* is a
-- tenant's rule: on this event, or at these times, create a job of that kind with this payload. Emitting stores the
-- event and a row in `pending_events`. A keeper reads these rows, fills in the payloads, and then writes jobs and matches
-- and deletes the rows in one transaction: even after a crash each trigger creates exactly one job per event.

-- Public. Emits an event. With an id of the caller it can be repeated: the event is stored once.
create or replace function posthouse.emit(
  event text, context jsonb default '{}', tenant_id text default 'default', id uuid default null,
  subject text default null, correlation_id text default null, created_by text default null
) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  v_id uuid := coalesce(emit.id, posthouse.new_id());
  v_now timestamptz := posthouse.now();
  v_tenant text := coalesce(posthouse.effective_tenant(emit.tenant_id), 'default');
  v_known text;  -- the tenant of the stored event with this id
  v_noted boolean;
begin
  if emit.event is null or emit.event = '' or length(emit.event) > 200 or emit.event ~ '[*\s[:cntrl:]]' then
    raise exception 'invalid event name %: use a dotted word such as order.paid', quote_nullable(emit.event)
      using errcode = 'PH013';
  elsif jsonb_typeof(emit.context) is distinct from 'object' then
    raise exception 'event %: the context must be a JSON object', quote_literal(emit.event) using errcode = 'PH013';
  end if;
  insert into posthouse.pending_events (event_id, at) values (v_id, v_now) on conflict do nothing;
  v_noted := found;
  if not v_noted or emit.id is not null then
    select e.tenant_id into v_known from posthouse.events as e where e.id = v_id limit 1;
  end if;
  if v_known <> v_tenant then
    raise exception 'event id % already exists', v_id using errcode = 'PH013';
  elsif v_noted and v_known is not null then
    delete from posthouse.pending_events as p where p.event_id = v_id;  -- the event was matched before
  end if;
  if not v_noted or v_known is not null then
    return v_id;
  end if;
  insert into posthouse.events (id, at, tenant_id, name, context, subject, correlation_id, created_by)
  values (v_id, v_now, v_tenant, emit.event, emit.context, emit.subject,
          emit.correlation_id, emit.created_by);
  perform posthouse.wake(array['posthouse:events']);
  return v_id;
end $$;

create or replace function posthouse.event_name_matches(p_pattern text, p_name text) returns boolean
language sql immutable as $$
  select case when position('*' in p_pattern) = 0 then p_pattern = p_name
    else p_name like replace(regexp_replace(p_pattern, '([\\%_])', '\\\1', 'g'), '*', '%') end
$$;

-- Returns events to match, each with the triggers for it, and locks them until the caller's transaction ends. The
-- context is returned as text: the reader may be unable to parse deeply nested JSON.
create or replace function posthouse.lock_pending_events(p_limit integer)
returns table (event jsonb, context text, triggers jsonb)
language sql as $$
  with mine as materialized (
    select u.* from posthouse.pending_events as u order by u.at, u.event_id limit p_limit for update skip locked
  )
  select
    jsonb_build_object(
      'id', m.event_id, 'at', m.at, 'replay', m.replay, 'tenant_id', e.tenant_id, 'name', e.name,
      'subject', e.subject, 'correlation_id', e.correlation_id),
    e.context::text,
    coalesce((
      select jsonb_agg(to_jsonb(t) order by t.id) from posthouse.triggers as t
      where t.tenant_id = e.tenant_id and t.type = 'event' and t.enabled
        and posthouse.event_name_matches(t.event_name, e.name)
        and (m.trigger_ids is null or t.id = any (m.trigger_ids))), '[]')
  from mine as m left join posthouse.events as e on e.id = m.event_id and e.at = m.at
$$;

-- Checks whether a trigger has created a job with this payload within the dedupe window: returns that job, or null and
-- records p_job for the window that starts now.
create or replace function posthouse.acquire_trigger_dedupe(p_trigger uuid, p_payload_digest text, p_job uuid, p_window double precision)
returns uuid
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_job uuid;
begin
  insert into posthouse.trigger_dedupes as m (trigger_id, payload_digest, job_id, expires_at)
  values (p_trigger, p_payload_digest, p_job, v_now + make_interval(secs => p_window))
  on conflict (trigger_id, payload_digest) do update set job_id = excluded.job_id, expires_at = excluded.expires_at
    where m.expires_at <= v_now;
  if not found then
    select m.job_id into v_job from posthouse.trigger_dedupes as m
    where m.trigger_id = p_trigger and m.payload_digest = p_payload_digest;
  end if;
  return v_job;
end $$;

-- Raises an alert about a trigger that could not create its job; with a key, only once for that key.
create or replace function posthouse.raise_trigger_alert(t posthouse.triggers, p_error text, p_key text default null) returns void
language plpgsql as $$
declare
  v_called text := coalesce(t.name, nullif(t.label, ''), t.id::text);
begin
  perform posthouse.raise_alert(
    'trigger_error', t.tenant_id, v_called, format('trigger %s: %s', v_called, p_error),
    jsonb_strip_nulls(jsonb_build_object(
      'trigger_id', t.id, 'kind', t.definition_key, 'event', t.event_name, 'cron', t.cron_expr)), p_key);
end $$;

-- Records the error of a trigger's last run; null: it succeeded. Written only if the error changed, or after a minute,
-- because the row of a trigger that always fails would otherwise be written on every run. Each error that is written
-- raises an alert.
create or replace function posthouse.record_trigger_error(p_trigger uuid, p_error text) returns void
language plpgsql as $$
declare
  v_trigger posthouse.triggers;
begin
  update posthouse.triggers set last_error = p_error, last_error_at = posthouse.now()
  where id = p_trigger and (
    last_error is distinct from p_error
    or (p_error is not null and last_error_at < posthouse.now() - interval '1 minute'))
  returning * into v_trigger;
  if found and p_error is not null then
    perform posthouse.raise_trigger_alert(v_trigger, p_error);
  end if;
end $$;

-- Records the results for events that lock_pending_events returned: p_results holds an object for each event and
-- trigger, with either a request for enqueue or an error. A job that the database rejects is an error of that match
-- alone. Results are processed in the order of triggers and payload digests, so that two keepers cannot deadlock.
create or replace function posthouse.record_matches(p_events uuid[], p_results jsonb)
returns table (fired integer, deduped integer, errors integer)
language plpgsql as $$
declare
  v_result record;
  v_job uuid;
  v_earlier uuid;
begin
  fired := 0; deduped := 0; errors := 0;
  for v_result in
    select r.* from jsonb_to_recordset(p_results) as r (
      event_id uuid, trigger_id uuid, replay integer, event_at timestamptz, tenant_id text, request jsonb,
      payload_digest text, dedupe_window double precision, error text)
    order by r.trigger_id, r.payload_digest, r.event_at, r.event_id
  loop
    v_job := posthouse.new_id();
    v_earlier := null;
    if v_result.error is null then
      begin
        if v_result.dedupe_window > 0 then
          v_earlier := posthouse.acquire_trigger_dedupe(v_result.trigger_id, v_result.payload_digest, v_job, v_result.dedupe_window);
        end if;
        if v_earlier is null then
          perform posthouse.enqueue_many(jsonb_build_array(v_result.request || jsonb_build_object('id', v_job)));
        end if;
      exception when others then
        if left(sqlstate, 2) in ('40', '53', '57', '58') then
          raise;  -- a failure of the database, not of the job: the keeper tries everything again
        end if;
        v_result.error := sqlerrm;
      end;
    end if;
    insert into posthouse.trigger_matches (event_id, trigger_id, replay, event_at, at, tenant_id, outcome, job_id, error)
    values (
      v_result.event_id, v_result.trigger_id, v_result.replay, v_result.event_at, posthouse.now(), v_result.tenant_id,
      case when v_result.error is not null then 'error' when v_earlier is not null then 'deduped' else 'fired' end,
      case when v_result.error is null then coalesce(v_earlier, v_job) end, v_result.error);
    perform posthouse.record_trigger_error(v_result.trigger_id, v_result.error);
    if v_result.error is not null then
      errors := errors + 1;
    elsif v_earlier is not null then
      deduped := deduped + 1;
    else
      fired := fired + 1;
    end if;
  end loop;
  delete from posthouse.pending_events where event_id = any (p_events);
  return next;
end $$;

-- Matches an event again, with all triggers or with the given ones. Returns false if there is no such event.
create or replace function posthouse.replay_event(p_id uuid, p_trigger_ids uuid[] default null, p_tenant text default null,
                                       p_actor text default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_event posthouse.events;
begin
  p_tenant := posthouse.effective_tenant(p_tenant);
  select * into v_event from posthouse.events as e where e.id = p_id and (p_tenant is null or e.tenant_id = p_tenant);
  if not found then
    return false;
  end if;
  insert into posthouse.pending_events (event_id, at, trigger_ids) values (p_id, v_event.at, p_trigger_ids) on conflict do nothing;
  if found then  -- otherwise it will be matched anyway
    -- Counted after the insert: while the insert waited, an earlier replay may have ended.
    update posthouse.pending_events as u
    set replay = (select coalesce(max(m.replay), 0) + 1 from posthouse.trigger_matches as m where m.event_id = p_id)
    where u.event_id = p_id;
  end if;
  perform posthouse.write_audit(p_actor, 'event.replay', v_event.tenant_id, p_id::text, null, jsonb_build_object('triggers', p_trigger_ids));
  perform posthouse.wake(array['posthouse:events']);
  return true;
end $$;

-- The fields that an operator may set.
create or replace function posthouse.trigger_fields() returns text[]
language sql immutable parallel safe as $$
  select '{label,enabled,type,event_name,cron_expr,timezone,definition_key,payload_template,dedupe_window_seconds,'
         'queue,priority,gap,fold,missed,catch_up_limit,overlap,jitter_seconds}'::text[]
$$;

-- The fields of p_fields that the caller may set. A tenant cannot create jobs of Posthouse's own kinds and queues.
create or replace function posthouse.settable(p_fields jsonb) returns jsonb
language plpgsql stable as $$
begin
  if posthouse.tenant() is null then
    return p_fields;
  elsif posthouse.is_own(p_fields ->> 'definition_key') or posthouse.is_own(p_fields ->> 'queue') then
    raise exception 'definition % does not exist', quote_nullable(p_fields ->> 'definition_key')
      using errcode = 'PH014';
  end if;
  return (select coalesce(jsonb_object_agg(f.key, f.value), '{}') from jsonb_each(p_fields) as f
          where f.key = any (posthouse.trigger_fields()));
end $$;

-- The fields of a trigger that the audit records.
create or replace function posthouse.trigger_state(t posthouse.triggers) returns jsonb
language sql stable as $$
  select jsonb_object_agg(f.key, f.value) from jsonb_each(to_jsonb(t)) as f
  where f.key = any (posthouse.trigger_fields())
$$;

-- Stores a new or changed trigger. Its next time is reset, to be computed again, if the fields that determine it
-- changed.
create or replace function posthouse.write_trigger(p_old posthouse.triggers, p_new posthouse.triggers) returns posthouse.triggers
language plpgsql as $$
begin
  if not exists (select from posthouse.definitions as d where d.key = p_new.definition_key) then
    raise exception 'definition % does not exist', quote_nullable(p_new.definition_key)
      using errcode = 'PH014', hint = 'Start a worker that has this handler, or create the command first.';
  end if;
  p_new.updated_at := posthouse.now();
  if (p_old.cron_expr, p_old.timezone, p_old.gap, p_old.fold, p_old.enabled)
     is distinct from (p_new.cron_expr, p_new.timezone, p_new.gap, p_new.fold, p_new.enabled) then
    p_new.next_at := null;
  end if;
  if p_old.id is null then
    insert into posthouse.triggers select p_new.*;
  else
    p_new.version := p_old.version + 1;
    update posthouse.triggers as t set
      label = p_new.label, enabled = p_new.enabled, type = p_new.type, event_name = p_new.event_name,
      cron_expr = p_new.cron_expr, timezone = p_new.timezone, definition_key = p_new.definition_key,
      payload_template = p_new.payload_template, dedupe_window_seconds = p_new.dedupe_window_seconds,
      queue = p_new.queue, priority = p_new.priority, gap = p_new.gap, fold = p_new.fold, missed = p_new.missed,
      catch_up_limit = p_new.catch_up_limit, overlap = p_new.overlap, jitter_seconds = p_new.jitter_seconds,
      origin = p_new.origin, announced = p_new.announced, next_at = p_new.next_at, last_error = null, last_error_at = null,
      updated_at = p_new.updated_at, version = p_new.version
    where t.id = p_old.id;
  end if;
  perform posthouse.wake(array['posthouse:triggers']);
  return p_new;
exception
  when unique_violation then
    raise exception 'trigger % already exists', quote_literal(p_new.name) using errcode = 'PH014';
  when check_violation or not_null_violation or invalid_text_representation or numeric_value_out_of_range then
    raise exception 'trigger %: %', quote_literal(p_new.label), sqlerrm using errcode = 'PH014';
end $$;

create or replace function posthouse.create_trigger(p_tenant text, p_fields jsonb, p_actor text default null)
returns posthouse.triggers
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_new posthouse.triggers;
begin
  p_tenant := posthouse.effective_tenant(p_tenant);
  v_new := jsonb_populate_record(
    null::posthouse.triggers,
    '{"label": "", "enabled": true, "payload_template": {}, "dedupe_window_seconds": 300, "gap": "next",
      "fold": "once", "missed": "once", "catch_up_limit": 10, "overlap": "allow", "jitter_seconds": 0,
      "origin": "operator", "version": 1}'
    || posthouse.settable(p_fields));
  v_new.id := posthouse.new_id();
  v_new.tenant_id := p_tenant;
  v_new.created_by := p_actor;
  v_new.created_at := posthouse.now();
  v_new := posthouse.write_trigger(null, v_new);
  perform posthouse.write_audit(p_actor, 'trigger.create', p_tenant, v_new.id::text, null, posthouse.trigger_state(v_new));
  return v_new;
end $$;

-- Stores the triggers in the code of workers, which also announce all kinds that they know (p_kinds): triggers of these
-- kinds that the code no longer names are removed. An operator's change stays until the trigger in the code changes.
create or replace function posthouse.announce_triggers(p_kinds text[], p_triggers jsonb, p_actor text default 'code')
returns integer
language plpgsql as $$
declare
  v_named record;
  v_old posthouse.triggers;
  v_new posthouse.triggers;
  v_changed integer := 0;
begin
  if p_triggers = '[]' and not exists (
    select from posthouse.triggers as t where t.origin = 'code' and t.definition_key = any (p_kinds)) then
    return 0;
  end if;
  perform pg_advisory_xact_lock(7709, 0);  -- workers that start together announce the same triggers
  for v_named in
    select n ->> 'tenant_id' as tenant_id, n ->> 'name' as name, n - 'tenant_id' as fields
    from jsonb_array_elements(p_triggers) as n
  loop
    select * into v_old from posthouse.triggers as t
    where t.tenant_id = v_named.tenant_id and t.name = v_named.name for update;
    if v_named.fields ->> 'definition_key' <> all (p_kinds) or v_old.definition_key <> all (p_kinds) then
      raise exception 'trigger %: an announced trigger must be of a kind of this announcement',
        quote_nullable(v_named.name) using errcode = 'PH014';
    elsif v_old.id is null then
      perform posthouse.create_trigger(
        v_named.tenant_id, v_named.fields || jsonb_build_object('origin', 'code', 'announced', v_named.fields), p_actor);
    elsif v_old.announced is distinct from v_named.fields then
      v_new := jsonb_populate_record(v_old, v_named.fields);
      v_new.announced := v_named.fields;
      perform posthouse.write_trigger(v_old, v_new);
    else
      continue;
    end if;
    v_changed := v_changed + 1;
  end loop;
  for v_old in
    select * from posthouse.triggers as t
    where t.origin = 'code' and t.definition_key = any (p_kinds) and not exists (
      select from jsonb_array_elements(p_triggers) as n
      where n ->> 'tenant_id' = t.tenant_id and n ->> 'name' = t.name)
  loop
    perform posthouse.remove_trigger(v_old.id, null, p_actor);
    v_changed := v_changed + 1;
  end loop;
  return v_changed;
end $$;

-- Changes fields of a trigger. Returns null if there is no such trigger (of this tenant).
create or replace function posthouse.change_trigger(
  p_id uuid, p_changes jsonb, p_tenant text default null, p_actor text default null
) returns posthouse.triggers
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_old posthouse.triggers;
  v_new posthouse.triggers;
begin
  p_tenant := posthouse.effective_tenant(p_tenant);
  select * into v_old from posthouse.triggers as t
  where t.id = p_id and (p_tenant is null or t.tenant_id = p_tenant) for update;
  if not found then
    return null;
  end if;
  v_new := jsonb_populate_record(v_old, posthouse.settable(p_changes));
  if posthouse.trigger_state(v_new) = posthouse.trigger_state(v_old) then
    return v_old;
  end if;
  v_new := posthouse.write_trigger(v_old, v_new);
  perform posthouse.write_audit(p_actor,
    case when v_new.enabled = v_old.enabled then 'trigger.change'
         when v_new.enabled then 'trigger.enable' else 'trigger.disable' end,
    v_old.tenant_id, p_id::text, posthouse.trigger_state(v_old), posthouse.trigger_state(v_new));
  return v_new;
end $$;

-- Removes a trigger, but not the jobs that it created. Returns false if there is no such trigger (of this tenant).
create or replace function posthouse.remove_trigger(p_id uuid, p_tenant text default null, p_actor text default null)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_old posthouse.triggers;
begin
  p_tenant := posthouse.effective_tenant(p_tenant);
  delete from posthouse.triggers as t where t.id = p_id and (p_tenant is null or t.tenant_id = p_tenant)
  returning * into v_old;
  if not found then
    return false;
  end if;
  delete from posthouse.trigger_dedupes where trigger_id = p_id;
  perform posthouse.write_audit(p_actor, 'trigger.remove', v_old.tenant_id, p_id::text, posthouse.trigger_state(v_old), null);
  return true;
end $$;
