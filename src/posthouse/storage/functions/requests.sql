-- Requests: idempotency keys and other state of the API server.

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
    insert into posthouse.answers as a (tenant_id, key, digest, at) values (p_tenant, p_key, p_digest, v_now)
    on conflict (tenant_id, key) do update
      set digest = excluded.digest, at = excluded.at, status = null, body = null
      where a.at <= v_now - interval '1 day';
    fresh := found;
    select a.digest, a.status, a.body into digest, status, body from posthouse.answers as a
    where a.tenant_id = p_tenant and a.key = p_key;
    if found then
      return next;
      return;
    end if;  -- deleted between the two statements
  end loop;
end $$;

create or replace function posthouse.save_response(p_tenant text, p_key text, p_status integer, p_body text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update posthouse.answers set status = p_status, body = p_body
  where tenant_id = coalesce(posthouse.effective_tenant(p_tenant), '') and key = p_key
$$;
