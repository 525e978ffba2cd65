-- Actions of people: cancel, and retry of ended jobs; disable, enable and drain of workers. All are audited. They run
-- with the rights of their owner, for the tenant of the transaction if it has one: see functions/access.sql.

-- The calling role: in a security definer function that is session_user, not current_user.
create or replace function posthouse.caller() returns name
language sql stable as $$
  select coalesce(nullif(current_setting('role'), 'none')::name, session_user)
$$;

-- The tenant that a call is about: the tenant of the transaction if it has one; otherwise p_named, or null for all
-- tenants, which only the engine may pass.
create or replace function posthouse.effective_tenant(p_named text) returns text
language plpgsql stable as $$
begin
  if posthouse.tenant() is not null then
    return posthouse.tenant();
  elsif to_regrole('posthouse_engine') is null or posthouse.caller() = current_user
      or pg_has_role(posthouse.caller(), 'posthouse_engine', 'usage') then
    return p_named;
  end if;
  raise insufficient_privilege using message = 'posthouse.tenant is not set in this transaction';
end $$;

-- The name of the actor: p_actor if given, else the session's (set posthouse.actor = …), else its role.
create or replace function posthouse.actor(p_actor text) returns text
language sql stable as $$
  select coalesce(nullif(p_actor, ''), nullif(current_setting('posthouse.actor', true), ''), 'sql:' || session_user)
$$;

-- Whether a name suggests a secret: password, API_KEY, dropboxAccessToken. The same rule as in
-- posthouse.core.redaction.patterns; a test compares them.
create or replace function posthouse.is_secret_name(p_name text) returns boolean
language sql immutable parallel safe as $$
  select case
    when w.words = '{}' or (cardinality(w.words) > 1 and w.words[cardinality(w.words)] = any (
      '{at,budget,count,enabled,expiration,expires,expiry,field,in,index,len,length,limit,limits,name,names,policy,ref,'
      'required,size,total,ttl,type,types,usage,used}')) then false
    else w.words && '{authorization,bearer,cookie,cookies,creds,credential,credentials,cvc,cvv,jwt,otp,passcode,'
                    'passphrase,passwd,password,passwords,pwd,secret,secrets,token,tokens,totp}'
      or w.words[cardinality(w.words)] in ('auth', 'pass', 'pin')
      or array_to_string(w.words, ' ') ~ '(secret|token|cookie)s?( |$)'
      or array_to_string(w.words, '') ~ '(password|passwd|passphrase|apikey|accesskey|secretkey|privatekey|signingkey|'
         'encryptionkey|sessionkey|credential|authorization|connectionstring)' end
  from (select array(
    select lower(m[1])
    from regexp_matches(right(p_name, 200), '([A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+)', 'g') as m)) as w (words)
$$;

-- A copy in which the values under secret names, the values that a JSON schema marks as secret, and passwords in URLs
-- are redacted. The audit log is append-only: a secret that was entered by mistake and withdrawn would stay in it.
create or replace function posthouse.redact_secrets(p_value jsonb, p_secret boolean default false) returns jsonb
language plpgsql immutable as $$
declare
  v_marked boolean;
begin
  case jsonb_typeof(p_value)
    when 'object' then
      v_marked := p_secret or p_value @> '{"writeOnly": true}' or p_value @> '{"x-secret": true}'
        or p_value @> '{"format": "password"}';
      return (select coalesce(jsonb_object_agg(e.key, case
          when v_marked and e.key in ('default', 'const', 'enum', 'examples', 'example') then '"[redacted]"'::jsonb
          when not posthouse.is_secret_name(e.key) or jsonb_typeof(e.value) in ('null', 'boolean')
            or e.value = '""' or (jsonb_typeof(e.value) = 'number' and e.key ilike '%tokens')
            then posthouse.redact_secrets(e.value)
          -- The schema of a property, and a command's references to secrets, hold no secrets themselves.
          when jsonb_typeof(e.value) = 'object' and (e.key = 'secrets' or e.value ?| '{type,$ref,anyOf,allOf,oneOf}')
            then posthouse.redact_secrets(e.value, e.key <> 'secrets')
          else '"[redacted]"'::jsonb end), '{}')
        from jsonb_each(p_value) as e);
    when 'array' then
      return (select coalesce(jsonb_agg(posthouse.redact_secrets(e.value) order by e.nth), '[]')
              from jsonb_array_elements(p_value) with ordinality as e (value, nth));
    when 'string' then
      return to_jsonb(regexp_replace(p_value #>> '{}', '(://[^/[:space:]:@]*:)[^@[:space:]]+@', '\1[redacted]@', 'g'));
    else
      return p_value;
  end case;
end $$;

-- Writes an audit entry. Nothing else writes to the audit.
create or replace function posthouse.write_audit(
  p_actor text, p_action text, p_tenant text, p_target text, p_before jsonb, p_after jsonb
) returns void
language sql as $$
  insert into posthouse.audit (at, actor, action, tenant_id, target, before, after)
  values (posthouse.now(), posthouse.actor(p_actor), p_action, p_tenant, p_target,
          posthouse.redact_secrets(p_before), posthouse.redact_secrets(p_after))
$$;

-- Public. Cancels a job: a queued one at once, a running one by asking its worker. Returns canceled, canceling, or the
-- status that does not permit it; null if the job does not exist.
create or replace function posthouse.cancel(p_id uuid, p_tenant text default null, p_actor text default null)
returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_status text;
  v_tenant text;
  v_worker uuid;
begin
  p_tenant := posthouse.effective_tenant(p_tenant);
  for v_try in 1 .. 10 loop
    select j.status, j.tenant_id into v_status, v_tenant from posthouse.jobs as j where j.id = p_id;
    if v_status is null or v_tenant <> coalesce(p_tenant, v_tenant) then
      return null;
    end if;
    if not posthouse.is_legal('cancel', v_status, 'canceled') then
      return v_status;
    end if;
    if v_status = 'queued' and exists (select from posthouse.finish_queued(array[p_id], 'canceled',
        jsonb_build_object('type', 'Canceled', 'message', format('canceled by %s', posthouse.actor(p_actor))))) then
      perform posthouse.write_audit(p_actor, 'job.cancel', v_tenant, p_id::text,
        '{"status": "queued"}', '{"status": "canceled"}');
      return 'canceled';
    end if;
    update posthouse.running
    set cancel_requested_at = coalesce(cancel_requested_at, posthouse.now())
    where id = p_id returning worker_id into v_worker;
    if found then
      perform pg_notify('posthouse_cancel', v_worker::text);
      perform posthouse.write_audit(p_actor, 'job.cancel', v_tenant, p_id::text,
        '{"status": "running"}', '{"status": "canceling"}');
      return 'canceling';
    end if;
  end loop;
  return v_status;
end $$;

-- Cancels many jobs, in batches whose locks are taken in order. A job that ends concurrently is skipped and returned
-- with the status that it has.
create or replace function posthouse.cancel_jobs(p_ids uuid[], p_actor text) returns table (id uuid, answer text)
language plpgsql as $$
declare
  v_since timestamptz := posthouse.now();
  v_left uuid[] := p_ids;
  v_error jsonb := jsonb_build_object('type', 'Canceled', 'message', format('canceled by %s', p_actor));
begin
  for v_try in 1 .. 3 loop  -- a job may be claimed between the two statements, or return to the queue
    exit when v_left = '{}';
    for id in
      with mine as (
        select r.id from posthouse.running as r where r.id = any (v_left) order by r.id for update skip locked
      ), notified as (
        update posthouse.running as r set cancel_requested_at = coalesce(r.cancel_requested_at, posthouse.now())
        from mine where r.id = mine.id returning r.id, r.tenant_id, r.worker_id
      ), rung as materialized (
        select pg_notify('posthouse_cancel', w.worker_id::text) from (select distinct worker_id from notified) as w
      )
      select t.id from notified as t
      cross join (select count(*) from rung) as r
      cross join lateral posthouse.write_audit(p_actor, 'job.cancel', t.tenant_id, t.id::text,
        '{"status": "running"}', '{"status": "canceling"}') as noted
    loop
      answer := 'canceling';
      v_left := array_remove(v_left, id);
      return next;
    end loop;
    for id in
      select e from posthouse.finish_queued(v_left, 'canceled', v_error) as e
    loop
      answer := 'canceled';
      v_left := array_remove(v_left, id);
      perform posthouse.write_audit(p_actor, 'job.cancel', h.tenant_id, h.id::text,
        '{"status": "queued"}', '{"status": "canceled"}')
      from posthouse.history as h where h.id = cancel_jobs.id and h.finished_at >= v_since;
      return next;
    end loop;
    exit when not exists (
      select from posthouse.jobs as j where j.id = any (v_left) and j.status in ('queued', 'running'));
  end loop;
  return query select l, coalesce(posthouse.status_of(l), 'no longer stored') from unnest(v_left) as l;
end $$;

-- Public. Runs an ended job again, under the same id and with new attempts. A job that succeeded never changes. Steps,
-- parts and progress are kept as the definition says; with p_fresh they are deleted. Returns queued, or the status that
-- does not permit it; null if the job does not exist.
create or replace function posthouse.reopen(
  p_id uuid, p_tenant text default null, p_actor text default null, p_fresh boolean default false
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_status text;
  v_old posthouse.history;
  v_before uuid;
  v_behind uuid;
  v_blockers integer;
begin
  p_tenant := posthouse.effective_tenant(p_tenant);
  select * into v_old from posthouse.history as h
  where h.id = p_id and h.tenant_id = coalesce(p_tenant, h.tenant_id) for update;
  if not found then
    select j.status into v_status from posthouse.jobs as j
    where j.id = p_id and j.tenant_id = coalesce(p_tenant, j.tenant_id);
    return case when v_status = 'queued' then 'already queued' else v_status end;
  end if;
  if not posthouse.is_legal('reopen', v_old.status, 'queued') then
    return v_old.status;
  elsif v_old.erased_at is not null then  -- its payload is gone
    return 'erased';
  end if;
  if v_old.dedupe_key is not null then
    insert into posthouse.dedupe_keys as d (tenant_id, dedupe_key, job_id)
    values (v_old.tenant_id, v_old.dedupe_key, v_old.id)
    on conflict (tenant_id, dedupe_key) do update set job_id = excluded.job_id, is_active = true
      where not d.is_active;
    if not found then
      raise exception 'dedupe key % is taken by another active job', quote_literal(v_old.dedupe_key)
        using errcode = 'PH001';
    end if;
  end if;
  if v_old.attempt_started_at is not null then
    insert into posthouse.past_attempts (
      job_id, tenant_id, kind, generation, attempt, worker_id, token, started_at, finished_at, outcome,
      subject, error, output, queue, ready_at)
    values (
      v_old.id, v_old.tenant_id, v_old.kind, v_old.generation, v_old.attempt_count, v_old.worker_id,
      v_old.token, v_old.attempt_started_at, v_old.finished_at, v_old.outcome, v_old.subject, v_old.error,
      v_old.output, v_old.queue,
      posthouse.ready_since(v_old.queued_at, v_old.scheduled_for, v_old.depends_on, v_old.order_key));
  end if;
  if v_old.order_key is not null then  -- its turn is over: it goes to the end of its ordered group
    v_before := posthouse.append_to_order(v_old.tenant_id, v_old.order_key, p_id);
    if exists (select from posthouse.job_dependencies as b where b.depends_on = p_id) then
      -- Jobs behind it wait for it no more, except those that depend on it or that another transaction has locked.
      perform posthouse.unblock(
        array[p_id], array[v_old.status], posthouse.lock_dependents(array[p_id], array[v_old.status], false));
    end if;
    delete from posthouse.job_dependencies as b where b.job_id = p_id and b.keeps_order returning b.depends_on into v_behind;
    if v_before = p_id then  -- it was the last of the group, and keeps its place
      v_before := v_behind;
    elsif posthouse.waits_for(v_before, p_id) then  -- to wait for that job would be a cycle: it goes before it
      update posthouse.order_tails set job_id = v_before
      where tenant_id = v_old.tenant_id and order_key = v_old.order_key;
      v_before := v_behind;
    end if;
  end if;
  delete from posthouse.history where id = p_id and finished_at = v_old.finished_at;
  v_blockers := posthouse.write_order_edge(v_before, p_id);
  insert into posthouse.waiting (@job -started_at -attempt_count -crashes -snoozes@, due_at, blockers)
  select
    @job v_old -started_at -attempt_count -crashes -snoozes
      scheduled_for := posthouse.now()
      generation := v_old.generation + 1
      requires := posthouse.without_code_exclusions(v_old.requires)
    @, posthouse.now(), v_blockers;
  perform posthouse.reset_progress(array[p_id], p_fresh);
  perform posthouse.write_audit(p_actor, 'job.retry', v_old.tenant_id, p_id::text,
    jsonb_build_object('status', v_old.status, 'generation', v_old.generation),
    jsonb_build_object('status', 'queued', 'generation', v_old.generation + 1)
      || case when p_fresh then '{"fresh": true}'::jsonb else '{}' end);
  perform posthouse.promote();
  perform posthouse.notify_finished(array[p_id]);  -- the job has not ended any more: notified sessions check again
  return 'queued';
end $$;

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
  select posthouse.is_online(w, p_silence) and w.disabled_at is null and w.drain_requested_at is null
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
    'name', w.name, 'disabled', w.disabled_at is not null, 'draining', w.drain_requested_at is not null)
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
  select posthouse.write_audit(p_actor, p_action, null, p_old.id::text, posthouse.worker_state(p_old), posthouse.worker_state(w))
  from posthouse.workers as w where w.id = p_old.id
$$;

-- Enables a disabled worker, and revokes a drain that its worker has not received yet.
create or replace function posthouse.enable_worker(p_worker uuid, p_actor text default null) returns boolean
language plpgsql as $$
declare
  v_old posthouse.workers;
begin
  select * into v_old from posthouse.workers as w where w.id = p_worker for update;
  if not found or (v_old.disabled_at is null and v_old.drain_requested_at is null) then
    return case when found then false end;
  end if;
  update posthouse.workers as w set disabled_at = null, drain_requested_at = null where w.id = p_worker;
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
  if not found or v_old.drain_requested_at is not null or v_old.stopped_at is not null then
    return case when found then false end;
  end if;
  update posthouse.workers as w set drain_requested_at = posthouse.now() where w.id = p_worker;
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
