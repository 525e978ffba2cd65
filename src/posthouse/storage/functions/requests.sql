-- Enqueue requests of tenants, and the idempotency keys of the API server.

-- Enqueues in the current transaction, as its tenant if it has one.
create or replace function posthouse.enqueue_here(p_jobs jsonb) returns table (ordinal integer, id uuid, outcome text)
language plpgsql as $$
begin
  if posthouse.tenant() is null then
    return query select e.ordinal, e.id, e.outcome from posthouse.enqueue_many(p_jobs) as e;
  else
    return query select e.ordinal, e.id, e.outcome from posthouse.tenant_enqueue(p_jobs) as e;
  end if;
end $$;

-- Enqueues jobs for the tenant of this transaction; any tenant_id in the requests is ignored. A job can only depend on,
-- repeat or have as its parent a job of the same tenant. The caller's job ids are kept only if they are checked for
-- repeats (verify), which is forced when the requests contain links: an unchecked id that another job has would be
-- stored a second time.
create or replace function posthouse.tenant_enqueue(p_jobs jsonb)
returns table (ordinal integer, id uuid, outcome text, queued_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant text := posthouse.tenant();
  v_linked boolean;
begin
  if v_tenant is null then
    raise insufficient_privilege using message = 'posthouse.tenant is not set in this transaction';
  end if;
  v_linked := posthouse.check_tenant_requests(p_jobs, v_tenant);
  for ordinal, id, outcome, queued_at in
    select e.ordinal, e.id, e.outcome, e.queued_at from posthouse.enqueue_many((
      select jsonb_agg(case
          when j.value @> '{"verify": true}' then j.value
          when v_linked then j.value || '{"verify": true}'
          else j.value - 'id' end
        || jsonb_build_object('tenant_id', v_tenant) order by j.nth)
      from jsonb_array_elements(p_jobs) with ordinality as j (value, nth))) as e
  loop
    if outcome = 'repeated'
       and not exists (select from posthouse.jobs as j where j.id = tenant_enqueue.id and j.tenant_id = v_tenant) then
      raise exception 'job id % already exists', id using errcode = 'PH002';
    end if;
    return next;
  end loop;
end $$;

-- Rejects requests that a tenant must not make: jobs with reserved names, and links to jobs of other tenants. Returns
-- whether any request links to another job.
create or replace function posthouse.check_tenant_requests(p_jobs jsonb, p_tenant text) returns boolean
language plpgsql stable as $$
begin
  if jsonb_path_exists(p_jobs, '$[*] ? (@.kind starts with "posthouse." || @.queue starts with "posthouse.")') then
    raise exception 'kind and queue names that begin with "posthouse." are reserved' using errcode = 'PH002';
  elsif not jsonb_path_exists(p_jobs, '$[*] ? (exists (@.depends_on[*]) || exists (@.parent_id))') then
    return false;
  end if;
  perform posthouse.check_linked_jobs(p_jobs, p_tenant);
  return true;
end $$;

create or replace function posthouse.check_linked_jobs(p_jobs jsonb, p_tenant text) returns void
language plpgsql stable as $$
declare
  v_stranger uuid;
begin
  select d.id into v_stranger
  from (select jsonb_path_query(p_jobs, '$[*].depends_on[*]') union all
        select jsonb_path_query(p_jobs, '$[*].parent_id ? (@ != null)')) as q (value)
  cross join lateral (select (q.value #>> '{}')::uuid) as d (id)
  where not exists (select from posthouse.jobs as j where j.id = d.id and j.tenant_id = p_tenant)
    and not p_jobs @> jsonb_build_array(jsonb_build_object('id', d.id))
  limit 1;
  if found then
    raise exception 'the job refers to job %, which does not exist', v_stranger using errcode = 'PH002';
  end if;
end $$;

-- Enqueues for a tenant that the engine's own program names, in a transaction of one statement: a server that enqueues
-- for others need not open and close a transaction around it. The ids are made by the server and kept, because it may
-- send the jobs again after a lost reply.
create or replace function posthouse.enqueue_for(p_tenant text, p_jobs jsonb)
returns table (ordinal integer, id uuid, outcome text, queued_at timestamptz)
language plpgsql as $$
begin
  perform posthouse.check_tenant_requests(p_jobs, p_tenant);
  return query
    select e.ordinal, e.id, e.outcome, e.queued_at from posthouse.enqueue_many((
      select jsonb_agg(j.value || jsonb_build_object('tenant_id', p_tenant) order by j.nth)
      from jsonb_array_elements(p_jobs) with ordinality as j (value, nth))) as e;
end $$;

-- Acquires an idempotency key for a request; `fresh` if it was free. Otherwise returns the digest and the response of
-- the request that has it; if that request is still in progress, waits for it.
create or replace function posthouse.acquire_idempotency_key(p_tenant text, p_key text, p_digest bytea)
returns table (fresh boolean, digest bytea, status integer, body text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_now timestamptz := posthouse.now();
begin
  p_tenant := coalesce(posthouse.effective_tenant(p_tenant), '');
  loop
    insert into posthouse.idempotency_keys as a (tenant_id, key, request_digest, at) values (p_tenant, p_key, p_digest, v_now)
    on conflict (tenant_id, key) do update
      set request_digest = excluded.request_digest, at = excluded.at, response_status = null, response_body = null
      where a.at <= v_now - interval '1 day';
    fresh := found;
    select a.request_digest, a.response_status, a.response_body into digest, status, body from posthouse.idempotency_keys as a
    where a.tenant_id = p_tenant and a.key = p_key;
    if found then
      return next;
      return;
    end if;  -- deleted between the two statements
  end loop;
end $$;

create or replace function posthouse.save_response(p_tenant text, p_key text, p_status integer, p_body text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update posthouse.idempotency_keys set response_status = p_status, response_body = p_body
  where tenant_id = coalesce(posthouse.effective_tenant(p_tenant), '') and key = p_key
$$;
