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

-- Attaches a file, whose bytes are already stored, to a queued job, for its handler to fetch. A file with the same name
-- is replaced. Returns false if there is no such job or it has started.
create or replace function posthouse.attach(p_file jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant text := posthouse.tenant();
  v_job record;
begin
  select j.id, j.tenant_id, j.generation, j.attempt_count into v_job from posthouse.jobs as j
  where j.id = (p_file ->> 'job_id')::uuid and j.status = 'queued' and (v_tenant is null or j.tenant_id = v_tenant);
  if not found then
    return false;
  elsif not starts_with(p_file ->> 'place', v_job.id || '/') then  -- otherwise it could be a file of another tenant's job
    raise insufficient_privilege using message = 'the artifact must be stored under the key of its job';
  end if;
  perform posthouse.upsert_artifact(v_job.id, v_job.tenant_id, v_job.generation, v_job.attempt_count, p_file);
  return true;
end $$;
