-- What a running job reports: progress, parts, durable steps, log lines.
--
-- Progress is stored in the job's own row. The rest has its own tables, which only jobs that use them touch: claim and
-- finish do not read them. Everything here is accepted only with the current token.
--
--   parts      named pieces of a job, each with a status and a percentage. Unless a job reports its own percentage,
--              it is computed from its parts.
--   steps      finished steps with their results: a later attempt does not run them again.
--   artifacts  files that the job keeps. Their bytes are stored elsewhere, see posthouse.blobs; the row says where, and
--              has their size and digest.
--   log_lines  log lines and output of the job while it runs; partitioned by day, dropped like history.
--
-- Parts and steps belong to the job, not to an attempt, so that the next attempt continues where the last one stopped.
-- If the definition of the kind says otherwise (keep_steps, keep_progress), reset_progress clears them when the job
-- returns to the queue. They are deleted with the job's history partition.
--
-- Lock order: the row in running first; its lock also covers the job's parts and steps.

create or replace function posthouse.upsert_artifact(
  p_id uuid, p_tenant text, p_generation integer, p_attempt integer, p_file jsonb
) returns void
language sql as $$
  insert into posthouse.artifacts as a (
    job_id, created_at, size, generation, attempt, tenant_id, name, content_type, sha256, blob_key)
  values (p_id, posthouse.now(), (p_file ->> 'size')::bigint, p_generation, p_attempt, p_tenant, p_file ->> 'name',
          p_file ->> 'content_type', decode(p_file ->> 'sha256', 'hex'), p_file ->> 'place')
  on conflict (job_id, name) do update set
    created_at = excluded.created_at, size = excluded.size, generation = excluded.generation,
    attempt = excluded.attempt, content_type = excluded.content_type, sha256 = excluded.sha256,
    blob_key = excluded.blob_key
$$;

-- Records a file of a running job, whose bytes are already stored. A file with the same name is replaced. Returns false
-- if the lease is lost; the bytes then belong to no artifact.
create or replace function posthouse.save_artifact(
  p_id uuid, p_token uuid, p_name text, p_blob_key text, p_size bigint, p_sha256 bytea, p_type text
) returns boolean
language plpgsql as $$
declare
  v_job posthouse.running;
begin
  select * into v_job from posthouse.running as r where r.id = p_id and r.token = p_token for update;
  if not found then
    return false;
  end if;
  perform posthouse.upsert_artifact(p_id, v_job.tenant_id, v_job.generation, v_job.attempt_count, jsonb_build_object(
    'name', p_name, 'place', p_blob_key, 'size', p_size, 'sha256', encode(p_sha256, 'hex'), 'content_type', p_type));
  return true;
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

-- A job's percentage, computed from its parts by their weights. Skipped parts do not count; null without parts.
create or replace function posthouse.parts_percent(p_job uuid) returns real
language sql stable as $$
  select case
    when sum(weight) filter (where status <> 'skipped') > 0 then
      sum(weight * case status when 'completed' then 100 else percent end) filter (where status <> 'skipped')
      / sum(weight) filter (where status <> 'skipped')
    when count(*) > 0 then 100 end::real
  from posthouse.parts where job_id = p_job
$$;

-- Stores reports of many running jobs at once: progress and changes of parts. Each report extends the lease of its job.
-- p_reports: [{id, token, percent, step, message, derive, parts: [{name, status, restart, percent, done, total, weight,
-- message, error, result}]}]; omitted fields keep their value. derive: compute the percentage from the parts. Returns
-- the reports that were not stored: lost, or busy (another transaction has the row locked; try again).
create or replace function posthouse.report(p_reports jsonb, p_lease interval)
returns table (id uuid, verdict text)
language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := posthouse.now();
  v_held uuid[] := array(
    select r.id from posthouse.running as r
    join jsonb_to_recordset(p_reports) as n (id uuid, token uuid) on r.id = n.id and r.token = n.token
    order by r.id for update of r skip locked);
  v_all jsonb := p_reports;
begin
  if cardinality(v_held) < jsonb_array_length(p_reports) then
    -- The call may also hold a report of an earlier attempt at the same job.
    p_reports := coalesce((
      select jsonb_agg(n.report order by n.nth) from jsonb_array_elements(p_reports) with ordinality as n (report, nth)
      join posthouse.running as r on r.id = (n.report ->> 'id')::uuid and r.token = (n.report ->> 'token')::uuid
      where r.id = any (v_held)), '[]');
  end if;
  if jsonb_path_exists(p_reports, '$[*].parts') then
    perform posthouse.upsert_parts(p_reports, v_held, v_now);
  end if;
  update posthouse.running as r set
    progress_percent = coalesce(
      n.percent, case when n.derive then posthouse.parts_percent(n.id) end, r.progress_percent),
    current_step = coalesce(n.step, r.current_step),
    progress_message = coalesce(n.message, r.progress_message),
    lease_expires_at = greatest(r.lease_expires_at, v_now + p_lease), progress_at = v_now
  from jsonb_to_recordset(p_reports) as n (id uuid, percent real, step text, message text, derive boolean)
  where r.id = n.id and n.id = any (v_held);
  return query
    select n.id, case when r.id is null then 'lost' else 'busy' end
    from jsonb_to_recordset(v_all) as n (id uuid, token uuid)
    left join posthouse.running as r on r.id = n.id and r.token = n.token
    where r.id is null or n.id <> all (v_held);
end $$;

-- Stores the parts of these reports, for the jobs in p_held, whose rows are locked.
create or replace function posthouse.upsert_parts(p_reports jsonb, p_held uuid[], p_now timestamptz) returns void
language sql as $$
  insert into posthouse.parts as p (
    job_id, tenant_id, name, generation, attempt, status, percent, done, total, weight, message, error, result,
    started_at, finished_at, updated_at)
  select
    r.id, r.tenant_id, c.name,
    case when c.status is null then coalesce(o.generation, r.generation) else r.generation end,
    case when c.status is null then coalesce(o.attempt, r.attempt_count) else r.attempt_count end, s.status,
    case s.status when 'completed' then 100 else coalesce(c.percent, o.percent, 0) end,
    coalesce(c.done, o.done), coalesce(c.total, o.total), coalesce(c.weight, o.weight, 1),
    coalesce(c.message, o.message), case s.status when 'failed' then coalesce(c.error, o.error) end,
    case when c.restart then c.result else coalesce(c.result, o.result) end,
    case when c.restart then p_now when s.status = 'pending' then o.started_at
         else coalesce(o.started_at, p_now) end,
    case when s.status in ('completed', 'failed', 'skipped') then
      case when c.status is null then o.finished_at else p_now end end,
    p_now
  from jsonb_to_recordset(p_reports) as n (id uuid, parts jsonb)
  join posthouse.running as r on r.id = n.id
  cross join lateral rows from (jsonb_to_recordset(n.parts) as (
    name text, status text, restart boolean, percent real, done bigint, total bigint, weight real,
    message text, error text, result jsonb)) with ordinality as c (
    name, status, restart, percent, done, total, weight, message, error, result, nth)
  left join posthouse.parts as o on o.job_id = n.id and o.name = c.name
  cross join lateral (select coalesce(c.status, o.status, 'pending')) as s (status)
  where n.id = any (p_held)
  order by r.id, c.nth
  on conflict (job_id, name) do update set
    generation = excluded.generation, attempt = excluded.attempt, status = excluded.status,
    percent = excluded.percent, done = excluded.done, total = excluded.total, weight = excluded.weight,
    message = excluded.message, error = excluded.error, result = excluded.result,
    started_at = excluded.started_at, finished_at = excluded.finished_at, updated_at = excluded.updated_at
$$;

-- Stores the result of a finished step, and extends the lease. Also for a handler's own transaction, with
-- p_unless_canceled: unless it returns kept, the caller must roll back. again: the step was stored before.
create or replace function posthouse.save_step(
  p_id uuid, p_token uuid, p_lease interval, p_name text, p_result jsonb, p_seconds real,
  p_unless_canceled boolean default false
) returns text
language plpgsql as $$
declare
  v_job posthouse.running;
begin
  select * into v_job from posthouse.running as r where r.id = p_id and r.token = p_token for update;
  if not found then
    return 'lost';
  elsif p_unless_canceled and v_job.cancel_requested_at is not null then
    return 'canceled';
  end if;
  update posthouse.running set lease_expires_at = greatest(lease_expires_at, posthouse.now() + p_lease)
  where id = p_id;
  insert into posthouse.steps (job_id, tenant_id, name, generation, attempt, seconds, result, finished_at)
  values (p_id, v_job.tenant_id, p_name, v_job.generation, v_job.attempt_count, p_seconds, p_result,
          posthouse.now())
  on conflict (job_id, name) do nothing;
  return case when found then 'kept' else 'again' end;
end $$;

-- Stores log lines of running jobs, each p_ages seconds old; lines without a current lease are dropped. A session that
-- follows a job holds a shared lock for it: a notification is only sent if that lock is held.
create or replace function posthouse.write_log(
  p_ids uuid[], p_tokens uuid[], p_ages double precision[], p_streams text[], p_levels text[], p_texts text[]
) returns integer
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_written integer;
  v_jobs uuid[];
  v_job uuid;
begin
  with put as (
    insert into posthouse.log_lines (job_id, at, generation, attempt, tenant_id, stream, level, text)
    select r.id, v_now - make_interval(secs => l.age), r.generation, r.attempt_count, r.tenant_id, l.stream,
           l.level, l.text
    from unnest(p_ids, p_tokens, p_ages, p_streams, p_levels, p_texts) with ordinality
      as l (id, token, age, stream, level, text, nth)
    join posthouse.running as r on r.id = l.id and r.token = l.token
    order by l.nth
    returning job_id
  )
  select count(*), array_agg(distinct job_id) into v_written, v_jobs from put;
  foreach v_job in array coalesce(v_jobs, '{}') loop
    if pg_try_advisory_lock(7706, hashtext(v_job::text)) then
      perform pg_advisory_unlock(7706, hashtext(v_job::text));
    else
      perform pg_notify('posthouse_log', v_job::text);
    end if;
  end loop;
  return v_written;
end $$;

-- Clears the steps and progress that the definitions of these queued jobs do not keep for the next attempt; all of them
-- if p_fresh. Called when the jobs return to the queue, before they can be claimed.
create or replace function posthouse.reset_progress(p_ids uuid[], p_fresh boolean default false) returns void
language plpgsql as $$
declare
  v_steps uuid[];
  v_progress uuid[];
begin
  if not p_fresh and not exists (select from posthouse.definitions where not (keep_steps and keep_progress)) then
    return;
  end if;
  select array_agg(w.id) filter (where p_fresh or not d.keep_steps),
         array_agg(w.id) filter (where p_fresh or not d.keep_progress)
  into v_steps, v_progress
  from posthouse.waiting as w left join posthouse.definitions as d on d.key = w.kind
  where w.id = any (p_ids);
  if v_steps is not null then
    delete from posthouse.steps where job_id = any (v_steps);
  end if;
  if v_progress is not null then
    delete from posthouse.parts where job_id = any (v_progress);
    update posthouse.waiting set progress_percent = null, current_step = null, progress_message = null
    where id = any (v_progress)
      and (progress_percent is not null or current_step is not null or progress_message is not null);
  end if;
end $$;

-- Deletes artifacts, parts and steps of jobs that no longer exist but whose partition was not dropped.
create or replace function posthouse.delete_orphaned_progress(p_before timestamptz) returns integer
language plpgsql as $$
declare
  v_steps integer;
  v_parts integer;
begin
  delete from posthouse.artifacts where created_at < p_before and posthouse.status_of(job_id) is null;
  delete from posthouse.steps where finished_at < p_before and posthouse.status_of(job_id) is null;
  get diagnostics v_steps = row_count;
  delete from posthouse.parts where updated_at < p_before and posthouse.status_of(job_id) is null;
  get diagnostics v_parts = row_count;
  return v_steps + v_parts;
end $$;
