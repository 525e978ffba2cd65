-- Alerts: events that need attention, derived from what the engine records anyway.
--
--   detect_alerts or raise_alert──▶ new ──post_alerts──▶ posted      sent to each destination, as a separate job
--                                   ├─────────────────▶ suppressed  in the cool-down of its type and subject
--                                   └─────────────────▶ disabled    its type is disabled
--
-- When a cool-down is over, the newest of the suppressed alerts is posted, with the number of the others. Claim and finish
-- do not depend on any of this. An alert has a dedupe key, so that it is created once no matter which keeper finds it and
-- how often.
-- The keeper that holds the row of alert_cursor finds and posts; the others skip. Finding and posting are one
-- transaction each: if a keeper is killed, the next one repeats the step.

-- Whether a kind is one of Posthouse's own. Such jobs raise no alerts: an alert about a failed delivery would need
-- another delivery.
create or replace function posthouse.is_own(p_kind text) returns boolean
language sql immutable parallel safe as $$ select starts_with(p_kind, 'posthouse.') $$;

-- Public. Raises an alert when the transaction commits. With a dedupe key it does so once for that key: returns false if there is an
-- alert with it.
create or replace function posthouse.raise_alert(
  p_type text, p_tenant text, p_subject text, p_message text, p_details jsonb default '{}',
  p_dedupe_key text default null
) returns boolean
language plpgsql as $$
begin
  if not exists (select from posthouse.alert_types as t where t.type = p_type) then
    raise exception 'unknown alert type %', quote_literal(p_type) using errcode = 'PH016',
      hint = 'Known types: ' || (select string_agg(t.type, ', ' order by t.type) from posthouse.alert_types as t) || '.';
  end if;
  return posthouse.insert_alerts(array[(
    posthouse.now(), p_type, p_tenant, p_subject, p_message, p_details,
    concat_ws(' ', p_type, coalesce(p_dedupe_key, posthouse.new_id()::text)))::posthouse.alert_candidate]) = 1;
end $$;

-- Stores new alerts, except for those whose key is known already; returns how many.
create or replace function posthouse.insert_alerts(p_candidates posthouse.alert_candidate[]) returns integer
language plpgsql as $$
declare
  v_kept integer;
begin
  insert into posthouse.alerts (at, type, tenant_id, subject, message, details, dedupe_key)
  select f.at, f.type, f.tenant_id, left(coalesce(f.subject, ''), 500), left(coalesce(f.message, ''), 2000), coalesce(f.details, '{}'), f.dedupe_key
  from unnest(p_candidates) as f
  on conflict (dedupe_key) do nothing;
  get diagnostics v_kept = row_count;
  return v_kept;
end $$;

-- Whether an alert with this key exists. A function of its own, so that it stays one index lookup: as a join it was planned
-- as a nested loop over all alerts while the table was empty, and took 80 s when there were 10,000.
create or replace function posthouse.is_known(p_dedupe_key text) returns boolean
language plpgsql stable as $$
begin
  return exists (select from posthouse.alerts as a where a.dedupe_key = p_dedupe_key);
end $$;

create or replace function posthouse.detect_dead_letters(p_since timestamptz, p_limit integer) returns setof posthouse.alert_candidate
language sql stable as $$
  select h.finished_at, 'job_max_retries_exceeded', h.tenant_id, h.kind,
         format('%s job %s is a dead letter after attempt %s of %s: %s', h.kind, h.id, h.attempt_count,
                h.max_attempts, left(coalesce(h.last_error, 'no error was recorded'), 500)),
         jsonb_strip_nulls(jsonb_build_object(
           'job_id', h.id, 'kind', h.kind, 'queue', h.queue, 'job_subject', h.subject, 'attempts', h.attempt_count,
           'max_attempts', h.max_attempts, 'error_type', h.error ->> 'type', 'worker_id', h.worker_id,
           'correlation_id', h.correlation_id)),
         k.dedupe_key
  from posthouse.history as h
  cross join lateral (select concat_ws(' ', 'job_max_retries_exceeded', h.id, h.generation)) as k (dedupe_key)
  where h.status = 'dead_letter' and h.finished_at >= p_since and not posthouse.is_own(h.kind)
    and h.status in ('failed', 'dead_letter')  -- the predicate of the index history_failed
    and not posthouse.is_known(k.dedupe_key)
  order by h.finished_at limit p_limit
$$;

create or replace function posthouse.detect_rescued_jobs(p_since timestamptz, p_limit integer) returns setof posthouse.alert_candidate
language sql stable as $$
  select l.finished_at, 'stale_job_recovered', l.tenant_id, coalesce(w.name, l.worker_id::text, 'unknown'),
         format('%s job %s was rescued from lost worker %s and will run again; lost attempt: %s', l.kind, l.job_id,
                coalesce(w.name, l.worker_id::text, 'unknown'), l.attempt),
         jsonb_strip_nulls(jsonb_build_object(
           'job_id', l.job_id, 'kind', l.kind, 'job_subject', l.subject, 'attempt', l.attempt, 'worker_id', l.worker_id,
           'worker', w.name)),
         l.dedupe_key
  from (
    select p.*, k.dedupe_key
    from posthouse.past_attempts as p
    cross join lateral (select concat_ws(' ', 'stale_job_recovered', p.job_id, p.token)) as k (dedupe_key)
    where p.outcome = 'lost' and p.finished_at >= p_since and not posthouse.is_own(p.kind)
      and p.outcome in ('failed', 'timeout', 'crashed', 'lost')  -- the predicate of the index past_attempts_failed
      and not posthouse.is_known(k.dedupe_key)
    order by p.finished_at limit p_limit) as l
  left join posthouse.workers as w on w.id = l.worker_id
$$;

create or replace function posthouse.detect_worker_changes(p_since timestamptz, p_limit integer) returns setof posthouse.alert_candidate
language sql stable as $$
  select f.at, f.type, null, w.name, format(f.text, w.name),
         jsonb_build_object('worker_id', w.id, 'worker', w.name, 'hostname', w.hostname, 'pid', w.pid,
                            'version', w.version, 'queues', w.queues),
         f.dedupe_key
  from posthouse.workers as w
  cross join lateral (values
    (w.started_at, 'worker_startup', 'worker %s started', concat_ws(' ', 'worker_startup', w.id)),
    (w.stopped_at, 'worker_shutdown',
     case when w.missing_since is null then 'worker %s stopped' else 'worker %s disconnected without shutting down' end,
     concat_ws(' ', 'worker_shutdown', w.id, extract(epoch from w.stopped_at)))) as f (at, type, text, dedupe_key)
  where f.at >= p_since and w.queues <> '{posthouse.system}'
    and not posthouse.is_known(f.dedupe_key)
  order by f.at limit p_limit
$$;

-- The failed attempts of the window, the last p_limit of them.
create or replace function posthouse.failures_within(p_from timestamptz, p_limit integer)
returns table (tenant_id text, kind text, subject text, job_id uuid, finished_at timestamptz, error jsonb)
language sql stable as $$
  select f.tenant_id, f.kind, f.subject, f.job_id, f.finished_at, f.error - 'traceback' from (
    (select p.tenant_id, p.kind, p.subject, p.job_id, p.finished_at, p.error
     from posthouse.past_attempts as p
     where p.outcome in ('failed', 'timeout', 'crashed', 'lost') and p.finished_at >= p_from
       and not posthouse.is_own(p.kind)
     order by p.finished_at desc limit p_limit)
    union all
    (select h.tenant_id, h.kind, h.subject, h.id, h.finished_at, h.error
     from posthouse.history as h
     where h.status in ('failed', 'dead_letter') and h.finished_at >= p_from and h.attempt_started_at is not null
       and not posthouse.is_own(h.kind)
     order by h.finished_at desc limit p_limit)) as f (tenant_id, kind, subject, job_id, finished_at, error)
  order by f.finished_at desc limit p_limit
$$;

-- Patterns of failures: one subject, or one cause of a kind, that failed p_failures times or more within p_window. The
-- same pattern is a new alert when a window has passed. A cause that concerns a single subject is reported by the
-- subject's own pattern.
create or replace function posthouse.detect_failure_patterns(
  p_now timestamptz, p_failures integer, p_window interval, p_limit integer default 10000
) returns setof posthouse.alert_candidate
language sql stable as $$
  with failed as materialized (
    select f.*, coalesce(f.error ->> 'fingerprint', f.error ->> 'type', 'unknown') as cause
    from posthouse.failures_within(p_now - p_window, p_limit) as f
  ), pattern as (
    select f.tenant_id, f.subject as name, f.subject as job_subject, null as kind, null as cause, count(*) as failures,
           count(distinct f.job_id) as jobs, max(f.finished_at) as last
    from failed as f where f.subject is not null
    group by f.tenant_id, f.subject having count(*) >= p_failures
    union all
    select f.tenant_id, concat_ws(' ', f.kind, f.cause), null, f.kind, f.cause, count(*), count(distinct f.job_id),
           max(f.finished_at)
    from failed as f
    group by f.tenant_id, f.kind, f.cause
    having count(*) >= p_failures and (count(f.subject) < count(*) or min(f.subject) < max(f.subject))
  ), fresh as materialized (
    select p.* from pattern as p
    where not exists (
      select from posthouse.alerts as a
      where a.type = 'job_failed_pattern' and a.subject = left(p.name, 500) and a.at > p_now - p_window
        and a.tenant_id = p.tenant_id)
  )
  select p.last, 'job_failed_pattern', p.tenant_id, p.name,
         format('%s failed %s times in %s min, in %s; latest: %s job %s: %s',
                case when p.kind is null then p.job_subject else p.kind || ' (' || p.cause || ')' end, p.failures,
                round(extract(epoch from p_window) / 60, 1)::real,
                case p.jobs when 1 then 'one job' else p.jobs || ' jobs' end, e.kind, e.job_id,
                left(concat_ws(': ', e.error ->> 'type', e.error ->> 'message'), 500)),
         jsonb_strip_nulls(jsonb_build_object(
           'job_subject', p.job_subject, 'kind', p.kind, 'fingerprint', e.error ->> 'fingerprint',
           'error_type', e.error ->> 'type', 'failures', p.failures, 'jobs', p.jobs,
           'window_seconds', extract(epoch from p_window), 'last_job_id', e.job_id)),
         concat_ws(' ', 'job_failed_pattern', p.tenant_id, p.name, extract(epoch from p.last))
  from fresh as p
  cross join lateral (
    select f.* from failed as f
    where f.finished_at = p.last and f.tenant_id = p.tenant_id
      and case when p.kind is null then f.subject = p.job_subject else f.kind = p.kind and f.cause = p.cause end
    limit 1) as e
$$;

-- Finds alerts of these types since the last call; returns how many were new, or null while another keeper is searching.
-- Patterns are detected only if p_failures is given. At most p_limit of a source are taken at once.
create or replace function posthouse.detect_alerts(
  p_types text[], p_failures integer default null, p_window interval default '1 hour', p_limit integer default 5000
) returns integer
language plpgsql
-- The plan is fixed, so that it reads new rows through the indexes and is not planned over all partitions on each call.
set enable_seqscan = off
set jit = off  -- disabled plan nodes have a huge cost, which would trigger JIT compilation
set plan_cache_mode = force_generic_plan
as $$
declare
  -- Read before this transaction writes: see next_xid. A transaction that read the clock before `mark` has its xid by
  -- now.
  v_now timestamptz := posthouse.now();
  v_mark timestamptz := v_now - interval '5 seconds';
  v_oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
  v_next xid8 := posthouse.next_xid(v_oldest);
  v_written boolean := pg_current_xact_id_if_assigned() is not null;
  v_settled boolean;
  v_cursor posthouse.alert_cursor;
  v_some posthouse.alert_candidate[];
  v_candidates posthouse.alert_candidate[] := '{}';
  v_seen_to timestamptz := 'infinity';
  v_source text;
begin
  select * into v_cursor from posthouse.alert_cursor for update skip locked;
  if not found then
    return null;
  end if;
  v_settled := v_oldest >= v_cursor.checkpoint_xid and not v_written;
  foreach v_source in array '{detect_dead_letters,detect_rescued_jobs,detect_worker_changes}'::text[] loop
    v_some := case v_source
      when 'detect_dead_letters' then case when 'job_max_retries_exceeded' = any (p_types)
        then array(select f from posthouse.detect_dead_letters(v_cursor.scanned_until, p_limit) as f) end
      when 'detect_rescued_jobs' then case when 'stale_job_recovered' = any (p_types)
        then array(select f from posthouse.detect_rescued_jobs(v_cursor.scanned_until, p_limit) as f) end
      else case when p_types && '{worker_startup,worker_shutdown}'
        then array(select f from posthouse.detect_worker_changes(v_cursor.scanned_until, p_limit) as f) end
    end;
    if cardinality(v_some) = p_limit then
      v_seen_to := least(v_seen_to, (select max(f.at) from unnest(v_some) as f));
    end if;
    v_candidates := v_candidates || coalesce(v_some, '{}');
  end loop;
  if p_failures is not null and 'job_failed_pattern' = any (p_types) then
    v_candidates := v_candidates || array(select f from posthouse.detect_failure_patterns(v_now, p_failures, p_window) as f);
  end if;
  update posthouse.alert_cursor set
    scanned_until = least(v_mark, v_seen_to, case when v_settled then v_cursor.checkpoint_at else v_cursor.scanned_until end),
    checkpoint_at = case when v_settled then v_mark else v_cursor.checkpoint_at end,
    checkpoint_xid = case when v_settled then v_next else v_cursor.checkpoint_xid end;
  return posthouse.insert_alerts(array(select f from unnest(v_candidates) as f where f.type = any (p_types)));
end $$;

-- Records the results of deliveries, and cancels those that were not delivered within a day.
create or replace function posthouse.record_delivery_results(p_now timestamptz) returns void
language plpgsql as $$
declare
  v_forsaken uuid[];
begin
  with ended as (
    update posthouse.alert_deliveries as d
    set state = case h.status when 'succeeded' then 'sent' else 'failed' end, ended_at = h.finished_at,
        error = case when h.status <> 'succeeded' then h.last_error end
    from posthouse.history as h
    where d.state = 'queued' and h.id = d.job_id
    returning d.alert_id, d.state
  )
  update posthouse.alert_types as t set sent = t.sent + n.sent, failed = t.failed + n.failed
  from (select a.type, count(*) filter (where e.state = 'sent') as sent, count(*) filter (where e.state = 'failed') as failed
        from ended as e join posthouse.alerts as a on a.id = e.alert_id group by a.type) as n
  where t.type = n.type;
  v_forsaken := array(
    select d.job_id from posthouse.alert_deliveries as d join posthouse.alerts as a on a.id = d.alert_id
    where d.state = 'queued' and a.posted_at < p_now - interval '1 day');
  if v_forsaken <> '{}' then
    perform posthouse.finish_queued(v_forsaken, 'canceled', jsonb_build_object(
      'type', 'AlertTooOld', 'message', 'the alert was not delivered within a day'));
  end if;
end $$;

create or replace function posthouse.touch_destinations(p_names text[], p_now timestamptz) returns void
language sql as $$
  insert into posthouse.alert_destinations as d (name, seen_at) select n, p_now from unnest(p_names) as n
  on conflict (name) do update set seen_at = excluded.seen_at
  where d.seen_at not between excluded.seen_at - interval '10 minutes' and excluded.seen_at
$$;

-- Sends alerts: enqueues one job for each alert and destination. Only a worker that knows the destination claims it.
create or replace function posthouse.send_alerts(p_alerts uuid[], p_destinations text[], p_attempts integer) returns void
language plpgsql as $$
declare
  v_jobs jsonb;
begin
  if exists (select from posthouse.definitions as d where d.key = 'posthouse.webhook' and not d.active) then
    return;  -- an operator has deactivated deliveries
  end if;
  with delivery as (
    insert into posthouse.alert_deliveries (job_id, alert_id, destination)
    select posthouse.new_id(), a.id, d.name from unnest(p_alerts) as a (id) cross join unnest(p_destinations) as d (name)
    returning job_id, alert_id, destination
  )
  select jsonb_agg(jsonb_build_object(
    'id', d.job_id, 'kind', 'posthouse.webhook', 'queue', 'posthouse.system', 'tenant_id', 'posthouse',
    'source', 'system', 'source_ref', d.alert_id, 'priority', 50, 'max_attempts', p_attempts,
    'requires', jsonb_build_array('webhook:' || d.destination),
    'payload', jsonb_build_object('alert', d.alert_id, 'destination', d.destination)))
  into v_jobs from delivery as d;
  if v_jobs is not null then
    perform posthouse.enqueue_many(v_jobs);
  end if;
end $$;

-- Adds new alerts to the cool-downs of their subjects, oldest first; alerts of disabled types become disabled. Returns how
-- many alerts there were.
create or replace function posthouse.apply_cooldowns(p_types text[], p_now timestamptz, p_limit integer default 20000) returns integer
language plpgsql as $$
declare
  v_ids uuid[] := array(select a.id from posthouse.alerts as a where a.state = 'new' order by a.at limit p_limit);
begin
  if v_ids = '{}' then
    return 0;
  end if;
  with taken as (
    update posthouse.alerts as a set state = case when a.type = any (p_types) then 'suppressed' else 'disabled' end
    where a.id = any (v_ids)
    returning a.id, a.at, a.type, coalesce(a.tenant_id, '') as tenant, a.subject, a.state
  ), counted as (
    update posthouse.alert_types as t set raised = t.raised + n.raised
    from (select k.type, count(*) as raised from taken as k group by k.type) as n where t.type = n.type
  )
  insert into posthouse.alert_cooldowns as g (type, tenant, subject, cooldown_until, suppressed_count, latest_alert_id)
  select k.type, k.tenant, k.subject, p_now, count(*), (array_agg(k.id order by k.at desc, k.id desc))[1]
  from taken as k where k.state = 'suppressed' group by k.type, k.tenant, k.subject
  on conflict (type, tenant, subject) do update
    set suppressed_count = g.suppressed_count + excluded.suppressed_count, latest_alert_id = excluded.latest_alert_id;
  return cardinality(v_ids);
end $$;

-- Selects the alerts to post, of the subjects that are not in a cool-down, and starts their cool-down. At most p_limit
-- messages of one type are sent within a cool-down: the last one stands for all other subjects, which limits the
-- messages of an alert storm over many subjects.
create or replace function posthouse.select_alerts_to_post(p_types text[], p_now timestamptz, p_cooldown interval, p_limit integer)
returns uuid[]
language plpgsql as $$
declare
  v_posted uuid[];
begin
  with cooldown_over as (
    select g.*, count(*) over (partition by g.type) as subjects,
           row_number() over (partition by g.type order by g.cooldown_until, g.tenant, g.subject) as nth,
           p_limit - (select count(*) from posthouse.alerts as a
                     where a.state = 'posted' and a.posted_at > p_now - p_cooldown and a.type = g.type) as room
    from posthouse.alert_cooldowns as g
    where g.suppressed_count > 0 and g.cooldown_until <= p_now and g.type = any (p_types)
  ), numbered as materialized (
    select l.*, case when l.subjects <= l.room then l.nth else least(l.nth, l.room) end as number
    from cooldown_over as l where l.room > 0
  ), message as materialized (
    select n.type, sum(n.suppressed_count) - 1 as others, (array_agg(n.latest_alert_id order by n.nth))[1] as alert
    from numbered as n group by n.type, n.number
  ), posted as (
    update posthouse.alerts as a set state = 'posted', posted_at = p_now, suppressed_count = m.others
    from message as m where a.id = m.alert
    returning a.id
  ), cooldown as (
    update posthouse.alert_cooldowns as g set suppressed_count = 0, latest_alert_id = null, cooldown_until = p_now + p_cooldown
    from numbered as n where g.type = n.type and g.tenant = n.tenant and g.subject = n.subject
  ), counted as (
    update posthouse.alert_types as t set suppressed = t.suppressed + n.suppressed
    from (select m.type, sum(m.others) as suppressed from message as m group by m.type) as n
    where t.type = n.type and n.suppressed > 0
  )
  select array_agg(posted.id) into v_posted from posted;
  return coalesce(v_posted, '{}');
end $$;

-- Posts new alerts, and suppressed alerts whose cool-down is over; returns the posted ones.
create or replace function posthouse.post_alerts(
  p_types text[], p_destinations text[], p_cooldown interval default '5 minutes', p_limit integer default 10,
  p_attempts integer default 6
) returns setof posthouse.alerts
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_posted uuid[];
begin
  perform from posthouse.alert_cursor for update skip locked;
  if not found then
    return;
  end if;
  perform posthouse.record_delivery_results(v_now);
  perform posthouse.touch_destinations(p_destinations, v_now);
  if p_destinations = '{}' and exists (
    select from posthouse.alert_destinations as d where d.seen_at > v_now - interval '1 day') then
    return;
  end if;
  perform posthouse.apply_cooldowns(p_types, v_now);
  v_posted := posthouse.select_alerts_to_post(p_types, v_now, p_cooldown, p_limit);
  if v_posted <> '{}' then
    perform posthouse.send_alerts(v_posted, p_destinations, p_attempts);
    return query select a.* from posthouse.alerts as a where a.id = any (v_posted) order by a.at;
  end if;
end $$;

-- Deletes alerts that were raised before p_before, unless they may be found again, and expired cool-downs.
create or replace function posthouse.delete_old_alerts(p_before timestamptz) returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  delete from posthouse.alert_cooldowns as g
  where g.cooldown_until < p_before and (g.suppressed_count = 0 or g.latest_alert_id is null);
  delete from posthouse.alerts as a
  where a.at < least(p_before, (select c.scanned_until from posthouse.alert_cursor as c)) and a.state <> 'new'
    and a.id not in (select g.latest_alert_id from posthouse.alert_cooldowns as g where g.latest_alert_id is not null);
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;
