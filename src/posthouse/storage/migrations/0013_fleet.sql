-- What operators do to workers, and how quickly work gets done.

-- A disabled worker claims nothing, and keeps what it runs. False: it is already; null: there is no such worker.
create function posthouse.disable_worker(p_worker uuid, p_actor text default 'system') returns boolean
language plpgsql as $$
declare
  v_name text;
begin
  update posthouse.workers as w set disabled_at = posthouse.now()
  where w.id = p_worker and w.disabled_at is null returning w.name into v_name;
  if not found then
    return (select false from posthouse.workers as w where w.id = p_worker);
  end if;
  perform posthouse.note(p_actor, 'worker.disable', null, p_worker::text, null, jsonb_build_object('name', v_name));
  return true;
end $$;

-- Takes back a disable, and a drain that its worker has not heard of.
create function posthouse.enable_worker(p_worker uuid, p_actor text default 'system') returns boolean
language plpgsql as $$
declare
  v_worker posthouse.workers;
begin
  update posthouse.workers as w set disabled_at = null, drain_asked_at = null
  where w.id = p_worker and (w.disabled_at is not null or w.drain_asked_at is not null) returning * into v_worker;
  if not found then
    return (select false from posthouse.workers as w where w.id = p_worker);
  end if;
  perform posthouse.note(
    p_actor, 'worker.enable', null, p_worker::text, null, jsonb_build_object('name', v_worker.name));
  perform posthouse.wake(v_worker.queues);
  return true;
end $$;

-- The worker is to finish its work and stop. It is told by its next beat, which the notification hastens.
create function posthouse.drain_worker(p_worker uuid, p_actor text default 'system') returns boolean
language plpgsql as $$
declare
  v_name text;
begin
  update posthouse.workers as w set drain_asked_at = posthouse.now()
  where w.id = p_worker and w.drain_asked_at is null and w.stopped_at is null returning w.name into v_name;
  if not found then
    return (select false from posthouse.workers as w where w.id = p_worker);
  end if;
  perform pg_notify('posthouse_cancel', p_worker::text);
  perform posthouse.note(p_actor, 'worker.drain', null, p_worker::text, null, jsonb_build_object('name', v_name));
  return true;
end $$;

-- Jobs of a queue and kind that ended each second, lately; null if too few did to tell. History is append-only, so
-- what ended last lies at the end of today's partition: its last pages are read, and no index is kept for this.
create function posthouse.recent_pace(
  p_queue text, p_kind text, p_window interval default '10 minutes', p_pages integer default 500
) returns double precision
language plpgsql stable as $$
declare
  v_now timestamptz := posthouse.now();
  v_part regclass := coalesce(
    to_regclass('posthouse.' || posthouse.partition_name('history', (v_now at time zone 'UTC')::date)),
    'posthouse.history_default');
  v_page bigint := greatest(0, pg_relation_size(v_part) / current_setting('block_size')::integer - p_pages);
  v_ended bigint;
  v_since timestamptz;
begin
  execute format(
    'select count(*) filter (where queue = $1 and kind = $2 and attempt_started_at is not null), min(finished_at)
     from %s where ctid >= $3 and finished_at > $4', v_part)
  into v_ended, v_since using p_queue, p_kind, format('(%s,0)', v_page)::tid, v_now - p_window;
  return case when v_ended >= 5 then v_ended / greatest(1, extract(epoch from v_now - v_since)) end;
end $$;
