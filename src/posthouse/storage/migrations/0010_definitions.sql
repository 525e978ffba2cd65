-- Definitions: what a kind of job is, in three layers. The defaults of the table's columns; over them what a
-- worker announced of its handler; over that what an operator set on purpose. A worker that starts replaces only
-- its own layer, so it never undoes what an operator did; an operator who clears a field gets the code's word
-- back. A definition without a layer from code is an operator's own: a command.
--
-- Everything is written by write_definition, which counts the version and tells whoever has it cached.

-- The fields that the layers may set.
create function posthouse.definition_fields() returns text[]
language sql immutable parallel safe as $$
  select '{description,queue,priority,max_attempts,timeout_seconds,retry,schema,limits,requires,prefers,active,'
         'redact,keep_steps,keep_progress,runner,command}'::text[]
$$;

-- What holds where neither the code nor an operator says anything.
create function posthouse.definition_defaults() returns jsonb
language sql immutable parallel safe as $$
  select '{"description": "", "queue": "default", "priority": 100, "max_attempts": 3, "schema": {}, "requires": [],
           "prefers": [], "active": true, "redact": [], "keep_steps": true, "keep_progress": true,
           "runner": "handler"}'::jsonb
$$;

-- Refuses fields that there are not, and values that their columns could not take as they are meant.
create function posthouse.check_definition(p_key text, p_fields jsonb) returns void
language plpgsql as $$
declare
  v_name text;
  v_is text;
  v_wants text;
begin
  if jsonb_typeof(p_fields) is distinct from 'object' then
    raise exception 'definition %: its fields are a JSON object', quote_literal(p_key) using errcode = 'PH011';
  end if;
  for v_name, v_is in select f.key, jsonb_typeof(f.value) from jsonb_each(p_fields) as f loop
    v_wants := case
      when v_name in ('description', 'queue', 'runner') then 'string'
      when v_name in ('priority', 'max_attempts', 'timeout_seconds') then 'number'
      when v_name in ('retry', 'schema', 'limits', 'command') then 'object'
      when v_name in ('requires', 'prefers', 'redact') then 'array'
      when v_name in ('active', 'keep_steps', 'keep_progress') then 'boolean' end;
    if v_wants is null then
      raise exception 'definition %: there is no field %', quote_literal(p_key), quote_literal(v_name)
        using errcode = 'PH011',
              hint = 'The fields are ' || array_to_string(posthouse.definition_fields(), ', ') || '.';
    elsif v_is <> v_wants and (v_is <> 'null' or v_name not in ('timeout_seconds', 'retry', 'limits')) then
      raise exception 'definition %: % is of type %, not %', quote_literal(p_key), v_name, v_wants, v_is
        using errcode = 'PH011';
    end if;
    if v_is = 'array' and exists (
      select from jsonb_array_elements(p_fields -> v_name) as e where jsonb_typeof(e) <> 'string') then
      raise exception 'definition %: % holds texts only', quote_literal(p_key), v_name using errcode = 'PH011';
    end if;
  end loop;
end $$;

-- Stores the layers of a definition and what follows from them.
create function posthouse.write_definition(p_key text, p_announced jsonb, p_overrides jsonb)
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
    active, redact, keep_steps, keep_progress, runner, command, origin, announced, overrides, created_at, updated_at)
  values (
    p_key, v_row.description, v_row.queue, v_row.priority, v_row.max_attempts, v_row.timeout_seconds,
    v_row.retry, v_row.schema, v_row.limits, v_row.requires, v_row.prefers, v_row.active, v_row.redact,
    v_row.keep_steps, v_row.keep_progress, v_row.runner, v_row.command, case when p_announced is null then 'operator' else 'code' end, p_announced,
    p_overrides, v_now, v_now)
  on conflict (key) do update set
    description = excluded.description, queue = excluded.queue, priority = excluded.priority,
    max_attempts = excluded.max_attempts, timeout_seconds = excluded.timeout_seconds, retry = excluded.retry,
    schema = excluded.schema, limits = excluded.limits, requires = excluded.requires,
    prefers = excluded.prefers, active = excluded.active, redact = excluded.redact,
    keep_steps = excluded.keep_steps, keep_progress = excluded.keep_progress, runner = excluded.runner,
    command = excluded.command, origin = excluded.origin, announced = excluded.announced,
    overrides = excluded.overrides, version = d.version + 1, updated_at = excluded.updated_at
  returning * into v_row;
  perform pg_notify('posthouse_definitions', p_key);
  return v_row;
exception
  when check_violation or not_null_violation or invalid_text_representation or numeric_value_out_of_range then
    raise exception 'definition %: %', quote_literal(p_key), sqlerrm using errcode = 'PH011';
end $$;

-- What workers say of their handlers: a JSON array of objects with a key and fields. Touches only what changed.
create function posthouse.announce(p_definitions jsonb) returns integer
language plpgsql as $$
declare
  v_new record;
  v_old posthouse.definitions;
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
    select * into v_old from posthouse.definitions where key = v_new.key for update;
    if v_old.runner = 'command' then
      raise exception 'a worker has a handler for %, which is a command', quote_literal(v_new.key)
        using errcode = 'PH011', hint = 'Rename the handler, or remove the definition of the command.';
    end if;
    if v_old.announced is distinct from v_new.fields then
      perform posthouse.write_definition(v_new.key, v_new.fields, coalesce(v_old.overrides, '{}'));
      v_changed := v_changed + 1;
    end if;
  end loop;
  return v_changed;
end $$;

-- What the audit keeps of a definition.
create function posthouse.definition_state(d posthouse.definitions) returns jsonb
language sql stable as $$
  select to_jsonb(d) - array['announced', 'created_at', 'updated_at']
$$;

-- Creates a command. p_fields must hold "command"; the other fields have defaults.
create function posthouse.create_definition(p_key text, p_fields jsonb, p_actor text default null)
returns posthouse.definitions
language plpgsql as $$
declare
  v_row posthouse.definitions;
begin
  perform posthouse.check_definition(p_key, p_fields);
  if not p_fields ? 'command' or p_fields ->> 'runner' <> 'command' then
    raise exception 'definition %: only commands are created, and need "command"; workers announce handlers',
      quote_literal(p_key) using errcode = 'PH011';
  end if;
  if exists (select from posthouse.definitions where key = p_key) then
    raise exception 'there is a definition % already', quote_literal(p_key) using errcode = 'PH011';
  end if;
  -- An hour, as for handlers: what runs for ever must have been meant to ("timeout_seconds": null).
  v_row := posthouse.write_definition(p_key, null, '{"runner": "command", "timeout_seconds": 3600}' || p_fields);
  if v_row.version > 1 then
    raise exception 'there is a definition % already', quote_literal(p_key) using errcode = 'PH011';
  end if;
  perform posthouse.note(p_actor, 'definition.create', null, p_key, null, posthouse.definition_state(v_row));
  return v_row;
end $$;

-- Changes fields, and gives those in p_clear back to the code or to the defaults. Null: there is no such definition.
create function posthouse.change_definition(
  p_key text, p_changes jsonb, p_clear text[] default '{}', p_actor text default null
) returns posthouse.definitions
language plpgsql as $$
declare
  v_old posthouse.definitions;
  v_new posthouse.definitions;
begin
  perform posthouse.check_definition(p_key, p_changes);
  if not p_clear <@ posthouse.definition_fields() then
    raise exception 'definition %: not all of % are fields', quote_literal(p_key), p_clear
      using errcode = 'PH011';
  end if;
  select * into v_old from posthouse.definitions where key = p_key for update;
  if not found then
    return null;
  end if;
  if v_old.overrides - p_clear || p_changes = v_old.overrides then
    return v_old;
  end if;
  if 'runner' = any (p_clear) or coalesce(p_changes ->> 'runner' <> v_old.runner, false) then
    raise exception 'definition %: a % stays one; remove it and create another', quote_literal(p_key), v_old.runner
      using errcode = 'PH011';
  end if;
  v_new := posthouse.write_definition(p_key, v_old.announced, v_old.overrides - p_clear || p_changes);
  perform posthouse.note(
    p_actor,
    case when v_new.active = v_old.active then 'definition.change'
         when v_new.active then 'definition.activate' else 'definition.deactivate' end,
    null, p_key, posthouse.definition_state(v_old), posthouse.definition_state(v_new));
  return v_new;
end $$;

-- Removes a definition; false if there is none. A worker that knows the kind announces it again when it starts.
-- Jobs that wait for it would be left without their rules: refused while there are any, unless p_force.
create function posthouse.remove_definition(
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
    raise exception 'definition %: jobs of this kind are queued or running', quote_literal(p_key)
      using errcode = 'PH011', hint = 'Deactivate it, let them end or cancel them; or force the removal.';
  elsif not p_force and exists (select from posthouse.triggers as t where t.definition_key = p_key) then
    raise exception 'definition %: there are triggers that make jobs of this kind', quote_literal(p_key)
      using errcode = 'PH011', hint = 'Remove them first (posthouse triggers list); or force the removal.';
  end if;
  perform posthouse.note(p_actor, 'definition.remove', null, p_key, posthouse.definition_state(v_old), null);
  perform pg_notify('posthouse_definitions', p_key);
  return true;
end $$;
