-- Erasure: removes the content of all jobs of a subject; their times and outcomes stay.
--
--   erase ──▶ erasing ──advance_erasures──▶ erased
--
-- erase cancels the jobs that have not ended and erases those that have, up to a number. The keeper continues until no
-- job of the subject is left: running jobs end first, and a subject may have more jobs than one transaction should
-- change. Until then, new jobs of the subject are canceled and erased as well.
--
-- Lock order: the row in erasures first, then jobs as in functions/jobs.sql.

-- The parts of an error that are kept: its type and fingerprint, and how the process ended.
create or replace function posthouse.erased_error(p_error jsonb) returns jsonb
language sql immutable strict as $$
  select coalesce(jsonb_object_agg(e.key, e.value), '{}') || '{"message": "erased"}'
  from jsonb_each(p_error) as e where e.key in ('type', 'fingerprint', 'exit_code', 'signal', 'pid')
$$;

-- Erases ended jobs. Returns how many artifacts they had; the server deletes their bytes.
create or replace function posthouse.erase_jobs(p_ids uuid[]) returns integer
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_done uuid[];
  v_artifacts integer;
begin
  with done as (
    update posthouse.history set
      payload = '{}', result = null, error = posthouse.erased_error(error), output = output - 'stdout' - 'stderr',
      last_error = case when last_error is not null then 'erased' end, current_step = null, progress_message = null,
      erased_at = v_now
    where id = any (p_ids) and erased_at is null
    returning id, tenant_id, dedupe_key
  ), freed as (  -- an erased result must not answer a new request
    delete from posthouse.dedupe_keys as d using done
    where d.tenant_id = done.tenant_id and d.dedupe_key = done.dedupe_key and d.job_id = done.id and not d.is_active
  )
  select array_agg(id) into v_done from done;
  if v_done is null then
    return 0;
  end if;
  update posthouse.past_attempts set error = posthouse.erased_error(error), output = output - 'stdout' - 'stderr'
  where job_id = any (v_done);
  delete from posthouse.payloads where job_id = any (v_done);
  delete from posthouse.parts where job_id = any (v_done);
  delete from posthouse.steps where job_id = any (v_done);
  delete from posthouse.log_lines where job_id = any (v_done);
  delete from posthouse.artifacts where job_id = any (v_done);
  get diagnostics v_artifacts = row_count;
  update posthouse.failure_deltas set message = 'erased' where job_id = any (v_done);
  update posthouse.failure_groups set message = 'erased' where job_id = any (v_done);
  update posthouse.alerts set message = 'erased'
  where details ->> 'job_id' = any (v_done::text[]) or details ->> 'last_job_id' = any (v_done::text[]);
  return v_artifacts;
end $$;

-- Erases the context of the subject's events, once the events have been matched with triggers. Returns how many.
create or replace function posthouse.erase_events(p_erasure posthouse.erasures, p_limit integer) returns integer
language plpgsql as $$
declare
  v_events uuid[];
begin
  with done as (
    update posthouse.events as e set context = '{}'
    where e.id = any (array(
      select e.id from posthouse.events as e
      where e.tenant_id = p_erasure.tenant_id and e.subject = p_erasure.subject and e.context <> '{}'
        and not exists (select from posthouse.pending_events as p where p.event_id = e.id) limit p_limit))
    returning e.id
  )
  select array_agg(id) into v_events from done;
  update posthouse.trigger_matches set error = 'erased' where event_id = any (v_events) and error is not null;
  return coalesce(cardinality(v_events), 0);
end $$;

-- Whether nothing is left to erase. One statement, so that no job moves between two reads.
create or replace function posthouse.is_erased(p_erasure posthouse.erasures) returns boolean
language sql stable as $$
  select not exists (
    select from posthouse.ready where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id
    union all
    select from posthouse.waiting where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id
    union all
    select from posthouse.running where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id
    union all
    select from posthouse.history
    where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id and erased_at is null
    union all
    select from posthouse.events
    where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id and context <> '{}'
      and at <= p_erasure.requested_at)
$$;

-- Does one step of an erasure, whose row the caller has locked: cancels up to p_limit jobs, and erases up to p_limit.
create or replace function posthouse.erase_step(p_erasure posthouse.erasures, p_limit integer) returns posthouse.erasures
language plpgsql as $$
declare
  v_active uuid[] := array(
    select id from posthouse.ready where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id
    union all
    select id from posthouse.waiting where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id
    union all
    select id from posthouse.running
    where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id and cancel_requested_at is null
    limit p_limit);
  v_ended uuid[];
  v_events integer;
  v_artifacts integer;
begin
  if v_active <> '{}' then
    perform posthouse.cancel_jobs(v_active, format('%s (erasure %s)', p_erasure.requested_by, p_erasure.id));
  end if;
  v_ended := array(
    select id from posthouse.history
    where subject = p_erasure.subject and tenant_id = p_erasure.tenant_id and erased_at is null limit p_limit);
  v_artifacts := posthouse.erase_jobs(v_ended);
  v_events := posthouse.erase_events(p_erasure, p_limit);
  update posthouse.erasures as e set
    jobs = e.jobs + cardinality(v_ended), events = e.events + v_events, artifacts = e.artifacts + v_artifacts,
    ended_at = case when posthouse.is_erased(p_erasure) then posthouse.now() end
  where e.id = p_erasure.id returning e.* into p_erasure;
  return p_erasure;
end $$;

create or replace function posthouse.note_erasure(p_erasure posthouse.erasures, p_actor text) returns void
language sql as $$
  select posthouse.write_audit(p_actor, 'subject.erase', p_erasure.tenant_id, p_erasure.subject, null,
    to_jsonb(p_erasure) - '{tenant_id,subject,requested_at,requested_by,ended_at}'::text[])
$$;

-- Public. Erases the content of the jobs and events of a subject, and cancels those that have not ended. A repeated call
-- continues the erasure.
create or replace function posthouse.erase(p_subject text, p_tenant text default 'default', p_actor text default null)
returns posthouse.erasures
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_erasure posthouse.erasures;
begin
  p_tenant := coalesce(posthouse.effective_tenant(p_tenant), 'default');
  if coalesce(p_subject, '') = '' then
    raise exception 'no subject given: name the subject whose jobs are to be erased' using errcode = 'PH002';
  end if;
  insert into posthouse.erasures as e (tenant_id, subject, requested_at, requested_by)
  values (p_tenant, p_subject, posthouse.now(), posthouse.actor(p_actor))
  on conflict (tenant_id, subject) where ended_at is null do update set requested_at = excluded.requested_at
  returning e.* into v_erasure;
  v_erasure := posthouse.erase_step(v_erasure, 500);
  perform posthouse.note_erasure(v_erasure, p_actor);
  return v_erasure;
end $$;

-- Continues the open erasures, for the keeper. Returns how many there were, and how many jobs were erased.
create or replace function posthouse.advance_erasures(p_limit integer default 500, out under_way integer, out erased integer)
language plpgsql as $$
declare
  v_old posthouse.erasures;
  v_new posthouse.erasures;
begin
  under_way := 0;
  erased := 0;
  for v_old in
    select * from posthouse.erasures as e where e.ended_at is null order by e.requested_at limit 10 for update skip locked
  loop
    v_new := posthouse.erase_step(v_old, p_limit);
    under_way := under_way + 1;
    erased := erased + v_new.jobs - v_old.jobs;
    if v_new.ended_at is not null then
      perform posthouse.note_erasure(v_new, v_new.requested_by);
    end if;
  end loop;
end $$;

-- Deletes artifacts of jobs that ended before p_before; the jobs stay. Returns how many.
create or replace function posthouse.delete_old_artifacts(p_before timestamptz, p_limit integer default 5000) returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  delete from posthouse.artifacts where ctid = any (array(
    select a.ctid from posthouse.artifacts as a
    where a.created_at < p_before
      and exists (select from posthouse.history as h where h.id = a.job_id and h.finished_at < p_before)
    limit p_limit));
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;
