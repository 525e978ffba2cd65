-- Definitions: the properties of a kind of job, in three layers. The lowest is the defaults of the table's columns;
-- above it what a worker announced for its handler; above that what an operator set. A worker that starts replaces only
-- its own layer, so it never undoes an operator's change; when an operator clears a field, the value from the code
-- applies again. A definition without a layer from code was made by an operator: a command, or the rules of a kind that
-- has no handler yet. Its jobs wait until a worker announces the handler or an operator sets a command.
--
-- Only write_definition writes definitions; it increments the version and notifies processes that cache the definition.

-- The fields that the layers may set.
create or replace function posthouse.definition_fields() returns text[]
language sql immutable parallel safe as $$
  select '{description,queue,priority,max_attempts,timeout_seconds,retry,schema,limits,requires,prefers,followup_queues,active,'
         'redact,keep_steps,keep_progress,runner,command}'::text[]
$$;

-- The defaults for fields that neither the code nor an operator sets.
create or replace function posthouse.definition_defaults() returns jsonb
language sql immutable parallel safe as $$
  select '{"description": "", "queue": "default", "priority": 100, "max_attempts": 3, "schema": {}, "requires": [],
           "prefers": [], "followup_queues": [], "active": true, "redact": [], "keep_steps": true, "keep_progress": true,
           "runner": "handler"}'::jsonb
$$;

-- Rejects unknown fields, and values of the wrong type for their column.
create or replace function posthouse.check_definition(p_key text, p_fields jsonb) returns void
language plpgsql as $$
declare
  v_name text;
  v_is text;
  v_wants text;
begin
  if jsonb_typeof(p_fields) is distinct from 'object' then
    raise exception 'definition %: fields must be a JSON object', quote_literal(p_key) using errcode = 'PH011';
  end if;
  for v_name, v_is in select f.key, jsonb_typeof(f.value) from jsonb_each(p_fields) as f loop
    v_wants := case
      when v_name in ('description', 'queue', 'runner') then 'string'
      when v_name in ('priority', 'max_attempts', 'timeout_seconds') then 'number'
      when v_name in ('retry', 'schema', 'limits', 'command') then 'object'
      when v_name in ('requires', 'prefers', 'redact', 'followup_queues') then 'array'
      when v_name in ('active', 'keep_steps', 'keep_progress') then 'boolean' end;
    if v_wants is null then
      raise exception 'definition %: unknown field %', quote_literal(p_key), quote_literal(v_name)
        using errcode = 'PH011',
              hint = 'Known fields: ' || array_to_string(posthouse.definition_fields(), ', ') || '.';
    elsif v_is <> v_wants and (v_is <> 'null' or v_name not in ('timeout_seconds', 'retry', 'limits')) then
      raise exception 'definition %: % must be of type %, not %', quote_literal(p_key), v_name, v_wants, v_is
        using errcode = 'PH011';
    end if;
    if v_is = 'array' and exists (
      select from jsonb_array_elements(p_fields -> v_name) as e where jsonb_typeof(e) <> 'string') then
      raise exception 'definition %: % must contain only strings', quote_literal(p_key), v_name using errcode = 'PH011';
    end if;
  end loop;
end $$;

-- Applies a definition to queued jobs that were enqueued before their kind had one: sets the options that the request
-- left out. Returns how many jobs. Called when a definition is created, and by the keeper for transactions that were
-- open at that time. Ready jobs move to the end of their new lane in their previous order.
create or replace function posthouse.adopt_jobs(p_kind text default null) returns integer
language plpgsql as $$
declare
  v_due posthouse.undefined_jobs[];
  v_lanes posthouse.lane[];
  v_adopted integer := 0;
  v_moved integer;
begin
  loop
    with due as (
      delete from posthouse.undefined_jobs as u
      where u.ctid = any (array(
        select n.ctid from posthouse.undefined_jobs as n join posthouse.definitions as d on d.key = n.kind
        where p_kind is null or n.kind = p_kind limit 10000))
      returning u
    )
    select array_agg(due.u) into v_due from due;
    exit when v_due is null;
    -- waiting first: a job that is promoted in between is found in ready.
    with due as materialized (
      select w.id, u.took, d as of from unnest(v_due) as u
      join posthouse.definitions as d on d.key = u.kind
      join posthouse.waiting as w on w.id = u.job_id
      order by w.id for update of w
    )
    update posthouse.waiting as w set
      queue = case when 'queue' = any (n.took) then (n.of).queue else w.queue end,
      priority = case when 'priority' = any (n.took) then (n.of).priority else w.priority end,
      max_attempts = case when 'max_attempts' = any (n.took)
        then greatest((n.of).max_attempts, w.attempt_count) else w.max_attempts end,
      timeout_seconds = case when 'timeout_seconds' = any (n.took) then (n.of).timeout_seconds else w.timeout_seconds end,
      requires = case when 'requires' = any (n.took) then nullif((n.of).requires, '{}') else w.requires end,
      prefers = case when 'prefers' = any (n.took) then nullif((n.of).prefers, '{}') else w.prefers end,
      limit_key = case when 'limit_key' = any (n.took) then posthouse.limit_key((n.of).limits, coalesce(
        w.payload, (select p.body from posthouse.payloads as p where p.job_id = w.id))) else w.limit_key end
    from due as n where n.id = w.id;
    get diagnostics v_moved = row_count;
    v_adopted := v_adopted + v_moved;
    with due as materialized (
      select r.id, r.position, u.took, d as of,
        coalesce((select l.rank from posthouse.lanes as l where l.lane = r.lane limit 1), 2::smallint) as rank
      from unnest(v_due) as u
      join posthouse.definitions as d on d.key = u.kind
      join posthouse.ready as r on r.id = u.job_id
      order by r.id for update of r
    ), placed as materialized (
      select due.*, nextval('posthouse.position') as new_position from (select * from due order by position) as due
    ), new as (
      select n.id, n.new_position, n.rank, r.kind, r.tenant_id,
        case when 'queue' = any (n.took) then (n.of).queue else r.queue end as queue,
        case when 'priority' = any (n.took) then (n.of).priority else r.priority end as priority,
        case when 'max_attempts' = any (n.took)
          then greatest((n.of).max_attempts, r.attempt_count) else r.max_attempts end as max_attempts,
        case when 'timeout_seconds' = any (n.took) then (n.of).timeout_seconds else r.timeout_seconds end as timeout_seconds,
        case when 'requires' = any (n.took) then nullif((n.of).requires, '{}') else r.requires end as requires,
        case when 'prefers' = any (n.took) then nullif((n.of).prefers, '{}') else r.prefers end as prefers,
        case when 'limit_key' = any (n.took) then posthouse.limit_key((n.of).limits, coalesce(
          r.payload, (select p.body from posthouse.payloads as p where p.job_id = r.id))) else r.limit_key end as limit_key
      from placed as n join posthouse.ready as r on r.id = n.id
    ), moved as (
      update posthouse.ready as r set
        queue = n.queue, priority = n.priority, max_attempts = n.max_attempts, timeout_seconds = n.timeout_seconds,
        requires = n.requires, prefers = n.prefers, limit_key = n.limit_key, position = n.new_position,
        lane = posthouse.lane_number(
          n.queue, n.kind, n.tenant_id, n.priority, n.rank, n.limit_key, n.requires, n.prefers)
      from new as n where n.id = r.id
      returning r.lane, r.queue, r.kind, r.tenant_id, r.priority, n.rank, r.limit_key, r.requires, r.prefers
    )
    select array_agg(distinct (m.lane, m.queue, m.kind, m.tenant_id, m.priority, m.rank, m.limit_key, m.requires,
                               m.prefers)::posthouse.lane), count(*)
    into v_lanes, v_moved from moved as m;
    v_adopted := v_adopted + v_moved;
    if v_lanes is not null then
      perform posthouse.open_lanes(v_lanes);
      perform posthouse.wake(array(select distinct l.queue from unnest(v_lanes) as l));
    end if;
  end loop;
  return v_adopted;
end $$;

-- Deletes rows of undefined_jobs whose jobs are no longer queued; returns how many.
create or replace function posthouse.delete_old_undefined_jobs() returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  delete from posthouse.undefined_jobs as u
  where not exists (select from posthouse.waiting as w where w.id = u.job_id)
    and not exists (select from posthouse.ready as r where r.id = u.job_id);
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

-- Stores the layers of a definition and the columns that result from them.
create or replace function posthouse.write_definition(p_key text, p_announced jsonb, p_overrides jsonb)
returns posthouse.definitions
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_row posthouse.definitions;
begin
  v_row := jsonb_populate_record(
    null::posthouse.definitions, posthouse.definition_defaults() || coalesce(p_announced, '{}') || p_overrides);
  insert into posthouse.definitions as d (
    key, description, queue, priority, max_attempts, timeout_seconds, retry, schema, limits, requires, prefers,
    followup_queues, active, redact, keep_steps, keep_progress, runner, command, origin, announced, overrides, created_at, updated_at)
  values (
    p_key, v_row.description, v_row.queue, v_row.priority, v_row.max_attempts, v_row.timeout_seconds,
    v_row.retry, v_row.schema, v_row.limits, v_row.requires, v_row.prefers, v_row.followup_queues,
    v_row.active, v_row.redact, v_row.keep_steps, v_row.keep_progress, v_row.runner, v_row.command,
    case when p_announced is null then 'operator' else 'code' end, p_announced,
    p_overrides, v_now, v_now)
  on conflict (key) do update set
    description = excluded.description, queue = excluded.queue, priority = excluded.priority,
    max_attempts = excluded.max_attempts, timeout_seconds = excluded.timeout_seconds, retry = excluded.retry,
    schema = excluded.schema, limits = excluded.limits, requires = excluded.requires,
    prefers = excluded.prefers, followup_queues = excluded.followup_queues, active = excluded.active, redact = excluded.redact,
    keep_steps = excluded.keep_steps, keep_progress = excluded.keep_progress, runner = excluded.runner,
    command = excluded.command, origin = excluded.origin, announced = excluded.announced,
    overrides = excluded.overrides, version = d.version + 1, updated_at = excluded.updated_at
  returning * into v_row;
  perform pg_notify('posthouse_definitions', p_key);
  if v_row.version = 1 then
    perform posthouse.adopt_jobs(p_key);
  end if;
  return v_row;
exception
  when check_violation or not_null_violation or invalid_text_representation or numeric_value_out_of_range then
    raise exception 'definition %: %', quote_literal(p_key), sqlerrm using errcode = 'PH011';
end $$;

-- Stores the definitions of handlers: a JSON array of objects with a key and fields. Writes only what changed; returns
-- how many. An announcement never creates a command or turns a definition into one. p_actor: the API key that
-- announced; null for a worker with a database connection, whose announcements are not audited.
create or replace function posthouse.announce(p_definitions jsonb, p_actor text default null) returns integer
language plpgsql as $$
declare
  v_new record;
  v_old posthouse.definitions;
  v_written posthouse.definitions;
  v_changed integer := 0;
begin
  for v_new in
    select n ->> 'key' as key, n - 'key' as fields from jsonb_array_elements(p_definitions) as n order by 1
  loop
    select * into v_old from posthouse.definitions where key = v_new.key;
    if v_old.announced = v_new.fields then
      continue;
    end if;
    perform posthouse.check_definition(v_new.key, v_new.fields);
    if v_new.fields ?| '{runner,command}' then
      raise exception 'definition %: a worker cannot announce a command', quote_literal(v_new.key)
        using errcode = 'PH011', hint = 'Create it as an operator: posthouse definitions create.';
    end if;
    select * into v_old from posthouse.definitions where key = v_new.key for update;
    if v_old.runner = 'command' then
      raise exception 'a worker has a handler for kind %, but a command of that name is defined', quote_literal(v_new.key)
        using errcode = 'PH011', hint = 'Rename the handler, or remove the command definition.';
    end if;
    if v_old.announced is distinct from v_new.fields then
      v_written := posthouse.write_definition(v_new.key, v_new.fields, coalesce(v_old.overrides, '{}'));
      v_changed := v_changed + 1;
      if p_actor is not null then
        perform posthouse.write_audit(p_actor, 'definition.announce', null, v_new.key,
          case when v_old.key is not null then posthouse.definition_state(v_old) end,
          posthouse.definition_state(v_written));
      end if;
    end if;
  end loop;
  return v_changed;
end $$;

-- The fields of a definition that the audit records.
create or replace function posthouse.definition_state(d posthouse.definitions) returns jsonb
language sql stable as $$
  select to_jsonb(d) - array['announced', 'created_at', 'updated_at']
$$;

-- Public. Creates a definition. With a command its jobs run that command; without, they wait for a worker with a
-- handler.
create or replace function posthouse.create_definition(p_key text, p_fields jsonb, p_actor text default null)
returns posthouse.definitions
language plpgsql as $$
declare
  v_row posthouse.definitions;
begin
  perform posthouse.check_definition(p_key, p_fields);
  if exists (select from posthouse.definitions where key = p_key) then
    raise exception 'definition % already exists', quote_literal(p_key)
      using errcode = 'PH024', hint = 'Change it instead, or choose another key.';
  end if;
  -- One hour, as for handlers: running without a timeout must be requested ("timeout_seconds": null).
  v_row := posthouse.write_definition(p_key, null, '{"timeout_seconds": 3600}' || posthouse.with_runner(p_fields));
  if v_row.version > 1 then
    raise exception 'definition % already exists', quote_literal(p_key)
      using errcode = 'PH024', hint = 'Change it instead, or choose another key.';
  end if;
  perform posthouse.write_audit(p_actor, 'definition.create', null, p_key, null, posthouse.definition_state(v_row));
  return v_row;
end $$;

-- Adds the runner that a command implies to the fields.
create or replace function posthouse.with_runner(p_fields jsonb) returns jsonb
language sql immutable parallel safe as $$
  select case when p_fields ? 'command' then '{"runner": "command"}' || p_fields else p_fields end
$$;

-- Public. Changes fields of a definition, and resets those in p_clear to the code or to the defaults. Returns null if the
-- definition does not exist.
create or replace function posthouse.change_definition(
  p_key text, p_changes jsonb, p_clear text[] default '{}', p_actor text default null
) returns posthouse.definitions
language plpgsql as $$
declare
  v_old posthouse.definitions;
  v_new posthouse.definitions;
  v_changes jsonb := p_changes;
begin
  perform posthouse.check_definition(p_key, p_changes);
  if not p_clear <@ posthouse.definition_fields() then
    raise exception 'definition %: unknown field in %', quote_literal(p_key), p_clear
      using errcode = 'PH011';
  end if;
  select * into v_old from posthouse.definitions where key = p_key for update;
  if not found then
    return null;
  end if;
  if v_old.announced is null and v_old.runner = 'handler' then  -- has neither a handler nor a command yet
    v_changes := posthouse.with_runner(p_changes);
  end if;
  if v_old.overrides - p_clear || v_changes = v_old.overrides then
    return v_old;
  end if;
  if 'runner' = any (p_clear) or coalesce(p_changes ->> 'runner' <> v_old.runner, false) then
    raise exception 'definition %: the runner cannot be changed from %; remove the definition and create a new one', quote_literal(p_key), v_old.runner
      using errcode = 'PH011';
  end if;
  v_new := posthouse.write_definition(p_key, v_old.announced, v_old.overrides - p_clear || v_changes);
  perform posthouse.write_audit(
    p_actor,
    case when v_new.active = v_old.active then 'definition.change'
         when v_new.active then 'definition.activate' else 'definition.deactivate' end,
    null, p_key, posthouse.definition_state(v_old), posthouse.definition_state(v_new));
  return v_new;
end $$;

-- Public. Removes a definition; returns false if it does not exist. Fails while jobs of the kind are queued or running,
-- unless p_force is true. A worker that has a handler creates it again when it starts.
create or replace function posthouse.remove_definition(
  p_key text, p_actor text default null, p_force boolean default false
) returns boolean
language plpgsql as $$
declare
  v_old posthouse.definitions;
begin
  delete from posthouse.definitions where key = p_key returning * into v_old;
  if not found then
    return false;
  end if;
  if not p_force and (
       exists (select from posthouse.running where kind = p_key)
       or exists (select from posthouse.waiting where kind = p_key)
       or exists (select from posthouse.ready as r
                  where r.lane in (select l.lane from posthouse.lanes as l where l.kind = p_key))) then
    raise exception 'definition %: jobs of this kind are still queued or running', quote_literal(p_key)
      using errcode = 'PH011', hint = 'Deactivate it and wait for the jobs to end, cancel them, or force the removal.';
  elsif not p_force and exists (select from posthouse.triggers as t where t.definition_key = p_key) then
    raise exception 'definition %: triggers still create jobs of this kind', quote_literal(p_key)
      using errcode = 'PH011', hint = 'Remove the triggers first (posthouse triggers list), or force the removal.';
  end if;
  perform posthouse.write_audit(p_actor, 'definition.remove', null, p_key, posthouse.definition_state(v_old), null);
  perform pg_notify('posthouse_definitions', p_key);
  return true;
end $$;
