-- Schedules: triggers that create jobs at set times. A keeper reads the schedules that are due, computes in Python
-- their nominal times and jobs, and passes all of it to fire_schedule, which writes everything in one transaction or
-- nothing. Any number of keepers may do so at the same time:
--
--   1. The trigger's row is locked; a keeper that finds it locked, changed or past the time that the keeper read does
--      nothing.
--   2. A run is recorded before its job is created, under its *nominal time*, the time that the schedule names. There
--      is one record for a trigger and a nominal time, so there is one job.
--   3. The trigger moves to its next time.

-- The schedules that are due or new, and the seconds until the next one is due. p_all: also schedules whose last run is
-- in the future, because the clock was set back; these are so rare that they have no index. For them the clock is read
-- again: a run that was created during this call is not in the future.
create or replace function posthouse.due_schedules(p_limit integer, p_all boolean default false)
returns table (at timestamptz, triggers jsonb, next_in double precision)
language plpgsql as $$
begin
  at := posthouse.now();
  triggers := coalesce((
    select jsonb_agg(to_jsonb(t)) from (
      (select d.* from posthouse.triggers as d
       where d.type = 'schedule' and d.enabled and d.next_at is null limit p_limit)
      union all
      (select d.* from posthouse.triggers as d
       where d.type = 'schedule' and d.enabled and d.next_at <= due_schedules.at order by d.next_at limit p_limit)
      union all
      (select d.* from posthouse.triggers as d
       where p_all and d.type = 'schedule' and d.enabled and d.next_at > due_schedules.at
         and d.last_nominal_at > posthouse.now() limit p_limit)) as t), '[]');
  next_in := (
    select extract(epoch from d.next_at - due_schedules.at) from posthouse.triggers as d
    where d.type = 'schedule' and d.enabled and d.next_at > due_schedules.at order by d.next_at limit 1);
  return next;
end $$;

-- An unfinished job of this trigger, if there is one. Of runs that were created while overlapping was allowed, only the
-- last counts, as the others are not marked active.
create or replace function posthouse.active_run(p_trigger uuid) returns uuid
language plpgsql as $$
declare
  v_run record;
begin
  for v_run in
    (select r.nominal_at, r.job_id, r.active from posthouse.schedule_runs as r
     where r.trigger_id = p_trigger and r.active order by r.nominal_at desc)
    union all
    (select r.nominal_at, r.job_id, false from posthouse.schedule_runs as r
     where r.trigger_id = p_trigger and r.job_id is not null order by r.nominal_at desc limit 1)
  loop
    if posthouse.status_of(v_run.job_id) in ('queued', 'running') then
      return v_run.job_id;
    elsif v_run.active then
      update posthouse.schedule_runs as r set active = false
      where r.trigger_id = p_trigger and r.nominal_at = v_run.nominal_at;
    end if;
  end loop;
  return null;
end $$;

-- Creates the job of a recorded run, and records the outcome; returns the reason if there is no job.
create or replace function posthouse.enqueue_run(t posthouse.triggers, p_nominal timestamptz, p_request jsonb, out outcome text,
                                   out reason text)
language plpgsql as $$
declare
  v_job uuid := posthouse.new_id();
  v_before uuid;
begin
  outcome := 'fired';
  if t.overlap = 'skip' then
    v_before := posthouse.active_run(t.id);
  end if;
  if v_before is not null then
    outcome := 'overlap';
    reason := format('job %s was still active', v_before);
    v_job := null;
  else
    begin
      perform posthouse.enqueue_many(jsonb_build_array(p_request || jsonb_build_object('id', v_job)));
    exception when others then
      if left(sqlstate, 2) in ('40', '53', '57', '58') then
        raise;  -- a failure of the database, not of the job: the keeper tries everything again
      end if;
      outcome := 'error';
      reason := sqlerrm;
      v_job := null;
    end;
  end if;
  update posthouse.schedule_runs as r
  set outcome = enqueue_run.outcome, reason = enqueue_run.reason, job_id = v_job,
      active = t.overlap = 'skip' and v_job is not null
  where r.trigger_id = t.id and r.nominal_at = p_nominal;
end $$;

-- Runs a schedule, if it still has the version and next time that the keeper read; if not, or if another keeper has it
-- locked, does nothing. p_runs: a JSON array of objects with nominal_at and either a request for enqueue or an outcome,
-- with its reason. p_next: the schedule's next time.
create or replace function posthouse.fire_schedule(
  p_trigger uuid, p_version integer, p_expected timestamptz, p_runs jsonb, p_next timestamptz,
  out fired integer, out skipped integer, out errors integer)
language plpgsql as $$
declare
  t posthouse.triggers;
  v_run record;
  v_made record;
  v_now timestamptz := posthouse.now();
  v_last timestamptz;
begin
  fired := 0; skipped := 0; errors := 0;
  select * into t from posthouse.triggers where id = p_trigger for update skip locked;
  if not found or not t.enabled or t.version <> p_version or t.next_at is distinct from p_expected then
    return;
  end if;
  for v_run in
    select r.* from jsonb_to_recordset(p_runs) as r (
      nominal_at timestamptz, missed_until timestamptz, request jsonb, outcome text, reason text)
    order by r.nominal_at
  loop
    v_last := coalesce(v_run.missed_until, v_run.nominal_at);
    insert into posthouse.schedule_runs (trigger_id, nominal_at, at, missed_until, tenant_id, outcome, reason)
    values (t.id, v_run.nominal_at, v_now, v_run.missed_until, t.tenant_id, coalesce(v_run.outcome, 'fired'), v_run.reason)
    on conflict do nothing;
    continue when not found;  -- the clock was set back: this time was handled before
    if v_run.request is not null then
      select m.* into v_made from posthouse.enqueue_run(t, v_run.nominal_at, v_run.request) as m;
      v_run.outcome := v_made.outcome;
      v_run.reason := v_made.reason;
    end if;
    case v_run.outcome
      when 'fired' then fired := fired + 1; t.last_error := null; t.last_error_at := null;
      when 'error' then
        errors := errors + 1; t.last_error := v_run.reason; t.last_error_at := v_now;
        perform posthouse.raise_trigger_alert(t, v_run.reason, concat_ws(' ', t.id, extract(epoch from v_run.nominal_at)));
      else skipped := skipped + 1;
    end case;
  end loop;
  update posthouse.triggers
  set next_at = p_next, last_nominal_at = coalesce(v_last, t.last_nominal_at), last_error = t.last_error,
      last_error_at = t.last_error_at
  where id = t.id;
end $$;

-- Creates a job of a trigger now, on request, even if the trigger is disabled. p_request: the job as a keeper would
-- request it; fields that the trigger itself defines are ignored. For a schedule, this is a run at p_nominal; for an
-- event trigger, the response to p_event: the id of a stored event, or a complete new event, which is not matched with
-- other triggers. The dedupe window of the trigger is ignored, its overlap rule is not. Returns no outcome if there is
-- no such trigger.
create or replace function posthouse.fire_trigger(
  p_id uuid, p_request jsonb, p_nominal timestamptz default null, p_event jsonb default null,
  p_tenant text default null, p_actor text default null, out outcome text, out reason text, out job_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  t posthouse.triggers;
  v_event posthouse.events;
  v_request jsonb;
begin
  p_tenant := posthouse.effective_tenant(p_tenant);
  select * into t from posthouse.triggers as d
  where d.id = p_id and (p_tenant is null or d.tenant_id = p_tenant) for update;
  if not found then
    return;
  end if;
  v_request := (select jsonb_object_agg(f.key, f.value) from jsonb_each(p_request) as f
                where f.key in ('payload', 'correlation_id', 'subject', 'scheduled_for', 'order_key'))
    || jsonb_build_object('kind', t.definition_key, 'tenant_id', t.tenant_id, 'queue', t.queue, 'priority', t.priority,
                          'source', t.type, 'source_ref', coalesce(p_event ->> 'id', t.id::text),
                          'created_by', posthouse.actor(p_actor));
  if t.type = 'schedule' then
    insert into posthouse.schedule_runs (trigger_id, nominal_at, at, tenant_id, outcome)
    values (t.id, p_nominal, posthouse.now(), t.tenant_id, 'fired');
    select m.outcome, m.reason into outcome, reason from posthouse.enqueue_run(t, p_nominal, v_request) as m;
    if outcome = 'error' then
      raise exception '%', reason using errcode = 'PH014';
    end if;
    select r.job_id into job_id from posthouse.schedule_runs as r where r.trigger_id = t.id and r.nominal_at = p_nominal;
  else
    if p_event ? 'name' then
      perform posthouse.emit(
        p_event ->> 'name', p_event -> 'context', t.tenant_id, (p_event ->> 'id')::uuid, p_event ->> 'subject',
        p_event ->> 'correlation_id', p_actor);
      delete from posthouse.pending_events as p where p.event_id = (p_event ->> 'id')::uuid;
    end if;
    select * into v_event from posthouse.events as e
    where e.id = (p_event ->> 'id')::uuid and e.tenant_id = t.tenant_id;
    if not found or not posthouse.event_name_matches(t.event_name, v_event.name) then
      raise exception 'trigger % does not match this event', t.id using errcode = 'PH014';
    end if;
    outcome := 'fired';
    job_id := posthouse.new_id();
    perform posthouse.enqueue_many(jsonb_build_array(v_request || jsonb_build_object('id', job_id)));
    insert into posthouse.trigger_matches (event_id, trigger_id, replay, event_at, at, tenant_id, outcome, job_id)
    select v_event.id, t.id, coalesce(max(m.replay) + 1, 0), v_event.at, posthouse.now(), t.tenant_id, 'fired',
           fire_trigger.job_id
    from posthouse.trigger_matches as m where m.event_id = v_event.id and m.event_at = v_event.at;
  end if;
  perform posthouse.write_audit(p_actor, 'trigger.fire', t.tenant_id, t.id::text, null, jsonb_strip_nulls(jsonb_build_object(
    'outcome', outcome, 'job_id', job_id, 'event_id', p_event ->> 'id')));
end $$;

-- Deletes runs that were recorded before p_before, except for active ones; returns how many.
create or replace function posthouse.delete_old_schedule_runs(p_before timestamptz) returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  delete from posthouse.schedule_runs as r
  where r.at < p_before
    and (not r.active or coalesce(posthouse.status_of(r.job_id), '') not in ('queued', 'running'));
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;
