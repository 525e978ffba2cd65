-- Actions of operators on workers, and the throughput of jobs.

-- Whether a worker is online: it has not stopped, and has sent a heartbeat within p_silence seconds, by default within
-- the offline_after with which it registered. All lists and counts of workers use this function and accepts_jobs.
create or replace function posthouse.is_online(w posthouse.workers, p_silence double precision) returns boolean
language sql stable as $$
  select w.stopped_at is null
    and coalesce(w.heartbeat_at, w.started_at) > posthouse.now() - coalesce(make_interval(secs => p_silence), w.offline_after)
$$;

-- Whether a worker is online and may claim jobs: neither disabled nor draining.
create or replace function posthouse.accepts_jobs(w posthouse.workers, p_silence double precision) returns boolean
language sql stable as $$
  select posthouse.is_online(w, p_silence) and w.disabled_at is null and w.drain_asked_at is null
$$;

create or replace function posthouse.worker_status(w posthouse.workers, p_running bigint, p_silence double precision)
returns text
language sql stable as $$
  select case
    when not posthouse.is_online(w, p_silence) then 'offline'
    when w.disabled_at is not null then 'disabled'
    when p_running = 0 then 'idle'
    when p_running >= w.concurrency then 'busy'
    else 'active' end
$$;

-- The fields of a worker that the audit records.
create or replace function posthouse.worker_state(w posthouse.workers) returns jsonb
language sql stable as $$
  select jsonb_build_object(
    'name', w.name, 'disabled', w.disabled_at is not null, 'draining', w.drain_asked_at is not null)
$$;

-- Disables a worker: it claims nothing, and finishes the jobs that it runs. Returns false if the worker was disabled
-- already, null if there is no such worker.
create or replace function posthouse.disable_worker(p_worker uuid, p_actor text default null) returns boolean
language plpgsql as $$
declare
  v_old posthouse.workers;
begin
  select * into v_old from posthouse.workers as w where w.id = p_worker for update;
  if not found or v_old.disabled_at is not null then
    return case when found then false end;
  end if;
  update posthouse.workers as w set disabled_at = posthouse.now() where w.id = p_worker;
  perform posthouse.audit_worker_action(p_actor, 'worker.disable', v_old);
  return true;
end $$;

create or replace function posthouse.audit_worker_action(p_actor text, p_action text, p_old posthouse.workers) returns void
language sql as $$
  select posthouse.note(p_actor, p_action, null, p_old.id::text, posthouse.worker_state(p_old), posthouse.worker_state(w))
  from posthouse.workers as w where w.id = p_old.id
$$;

-- Enables a disabled worker, and revokes a drain that its worker has not received yet.
create or replace function posthouse.enable_worker(p_worker uuid, p_actor text default null) returns boolean
language plpgsql as $$
declare
  v_old posthouse.workers;
begin
  select * into v_old from posthouse.workers as w where w.id = p_worker for update;
  if not found or (v_old.disabled_at is null and v_old.drain_asked_at is null) then
    return case when found then false end;
  end if;
  update posthouse.workers as w set disabled_at = null, drain_asked_at = null where w.id = p_worker;
  perform posthouse.audit_worker_action(p_actor, 'worker.enable', v_old);
  perform posthouse.wake(v_old.queues);
  return true;
end $$;

-- Asks a worker to finish its jobs and stop. The worker learns this from its next heartbeat, which the notification
-- triggers.
create or replace function posthouse.drain_worker(p_worker uuid, p_actor text default null) returns boolean
language plpgsql as $$
declare
  v_old posthouse.workers;
begin
  select * into v_old from posthouse.workers as w where w.id = p_worker for update;
  if not found or v_old.drain_asked_at is not null or v_old.stopped_at is not null then
    return case when found then false end;
  end if;
  update posthouse.workers as w set drain_asked_at = posthouse.now() where w.id = p_worker;
  perform pg_notify('posthouse_cancel', p_worker::text);
  perform posthouse.audit_worker_action(p_actor, 'worker.drain', v_old);
  return true;
end $$;

-- Jobs of a queue and kind that ended per second, recently; null if too few did for an estimate. History is
-- append-only, so the last jobs are at the end of today's partition: its last pages are read, without an index for
-- this.
create or replace function posthouse.recent_throughput(
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
  if posthouse.tenant() is not null then
    return null;  -- the throughput of other tenants is not visible to a tenant
  end if;
  execute format(
    'select count(*) filter (where queue = $1 and kind = $2 and attempt_started_at is not null), min(finished_at)
     from %s where ctid >= $3 and finished_at > $4', v_part)
  into v_ended, v_since using p_queue, p_kind, format('(%s,0)', v_page)::tid, v_now - p_window;
  return case when v_ended >= 5 then v_ended / greatest(1, extract(epoch from v_now - v_since)) end;
end $$;
