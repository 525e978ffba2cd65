-- Enqueue: one job or many, from any driver, in any transaction. Many jobs come as one JSON array, so that every driver
-- can call this with a single text parameter.

-- Raises the error for a kind whose definition is inactive: the kind accepts no new jobs, while queued jobs stay.
create or replace function posthouse.raise_inactive(p_kind text) returns text
language plpgsql stable as $$
begin
  raise exception 'jobs of kind % are not accepted: its definition is inactive', quote_literal(p_kind)
    using errcode = 'PH010', hint = 'Activate it with: posthouse definitions activate.';
end $$;

-- The key by which limits per key count a job, if its kind defines one: the text at a path of its payload.
create or replace function posthouse.limit_key(p_limits jsonb, p_payload jsonb) returns text
language sql immutable as $$ select p_payload #>> string_to_array(p_limits ->> 'by', '.') $$;

create or replace function posthouse.requests(p_jobs jsonb, p_now timestamptz) returns setof posthouse.request
language sql stable as $$
  select
    j.ordinality::integer, coalesce(j.id, posthouse.new_id()), j.parent_id, p_now,
    coalesce(j.scheduled_for, p_now + make_interval(secs => coalesce(j.delay, 0))),
    coalesce(j.priority, d.priority, 100), coalesce(j.max_attempts, d.max_attempts, 3),
    coalesce(j.timeout_seconds, d.timeout_seconds), coalesce(j.tenant_id, 'default'),
    case when d.active is false then posthouse.raise_inactive(j.kind) else j.kind end,
    coalesce(j.queue, d.queue, 'default'), coalesce(j.source, 'manual'), p.body,
    pg_column_size(p.body) > 2048, k.key, j.dedupe_window, coalesce(j.on_duplicate, 'existing'),
    j.order_key, j.correlation_id, j.subject, j.source_ref, j.created_by, j.retry,
    nullif(j.depends_on, '{}'), coalesce(j.on_dependency_failure, 'cancel'),
    coalesce(j.limit_key, posthouse.limit_key(d.limits, p.body)), nullif(coalesce(j.requires, d.requires), '{}'),
    nullif(coalesce(j.prefers, d.prefers), '{}'), j.trace, coalesce(j.verify, false),
    coalesce(j.verify, false) or k.key is not null or j.order_key is not null
      or coalesce(j.depends_on <> '{}', false) or pg_column_size(p.body) > 2048
      or j.scheduled_for is not null or j.delay is not null,
    j.scheduled_for is not null or j.delay is not null or coalesce(j.depends_on <> '{}', false),
    null::uuid,
    case when d.key is null then array_remove(array[
      case when j.queue is null then 'queue' end, case when j.priority is null then 'priority' end,
      case when j.max_attempts is null then 'max_attempts' end,
      case when j.timeout_seconds is null then 'timeout_seconds' end,
      case when j.requires is null then 'requires' end, case when j.prefers is null then 'prefers' end,
      case when j.limit_key is null then 'limit_key' end], null) end
  from rows from (jsonb_to_recordset(p_jobs) as (
      id uuid, parent_id uuid, scheduled_for timestamptz, delay double precision, priority integer,
      max_attempts integer, timeout_seconds real, tenant_id text, kind text, queue text, source text,
      payload jsonb, dedupe_key text, dedupe_content boolean, dedupe_window real, on_duplicate text,
      order_key text, correlation_id text, subject text, source_ref text, created_by text, retry jsonb,
      depends_on uuid[], on_dependency_failure text, limit_key text, requires text[], prefers text[],
      trace text, verify boolean)) with ordinality as j
  left join posthouse.definitions as d on d.key = j.kind
  cross join lateral (select coalesce(j.payload, '{}')) as p (body)
  cross join lateral (select case when j.dedupe_content
    then 'content:' || encode(sha256(convert_to(j.kind || E'\x1f' || p.body::text, 'UTF8')), 'hex')
    else j.dedupe_key end) as k (key)
$$;

-- Makes the lane of a new job known to claims, and wakes waiting workers.
create or replace function posthouse.enter_lane(p_lane posthouse.lane) returns void
language plpgsql as $$
begin
  if not exists (select from posthouse.lanes as l where l.lane = p_lane.lane) then
    perform posthouse.open_lanes(array[p_lane]);
  end if;
  perform posthouse.wake(array[p_lane.queue]);
end $$;

-- Stores one new job: in ready if it may start, else in waiting. A request that might have had to wait goes through
-- waiting in any case: a repeated request then conflicts there with its uncommitted first attempt, even if the job
-- became due in between. Plain inserts of values: through the statement for many, below, this took 0.2 ms more.
create or replace function posthouse.store_one(r posthouse.request, p_blockers integer default 0) returns void
language plpgsql as $$
declare
  v_lane bigint;
begin
  if r.took is not null then
    insert into posthouse.undefined_jobs (job_id, kind, took) values (r.id, r.kind, r.took);
  end if;
  if r.aside then
    insert into posthouse.payloads (job_id, body) values (r.id, r.payload);
    r.payload := null;
  end if;
  if p_blockers > 0 or r.later then
    insert into posthouse.waiting (@request@, due_at, blockers, on_dependency_failure)
    values (@request r@, r.scheduled_for, p_blockers, r.on_dependency_failure);
    if p_blockers > 0 or r.scheduled_for > r.queued_at then
      return;
    end if;
    delete from posthouse.waiting where id = r.id;
  end if;
  v_lane := posthouse.lane_number(
    r.queue, r.kind, r.tenant_id, r.priority, 2, r.limit_key, r.requires, r.prefers);
  insert into posthouse.ready (@request@, lane) values (@request r@, v_lane);
  perform posthouse.enter_lane(
    (v_lane, r.queue, r.kind, r.tenant_id, r.priority, 2, r.limit_key, r.requires, r.prefers)::posthouse.lane);
end $$;

-- Stores many jobs that need nothing but an insert.
create or replace function posthouse.store_many(p_requests posthouse.request[]) returns void
language plpgsql as $$
declare
  v_lanes posthouse.lane[];
begin
  insert into posthouse.undefined_jobs (job_id, kind, took)
  select r.id, r.kind, r.took from unnest(p_requests) as r where r.took is not null;
  with put as (
    insert into posthouse.ready (@request -dedupe_key -order_key -depends_on@, lane)
    select
      @request r -dedupe_key -order_key -depends_on@, posthouse.lane_number(
        r.queue, r.kind, r.tenant_id, r.priority, 2, r.limit_key, r.requires, r.prefers)
    from unnest(p_requests) as r
    returning lane, queue, kind, tenant_id, priority, 2, limit_key, requires, prefers
  )
  select array_agg(l::posthouse.lane) into v_lanes from (select distinct * from put) as l;
  perform posthouse.open_lanes(v_lanes);
  perform posthouse.wake(array(select distinct l.queue from unnest(v_lanes) as l));
end $$;

-- Enqueues a job that needs more than an insert, in three steps. Outcome: created, repeated (this id was enqueued
-- before), existing (another job, returned in `job`, has the dedupe key) or rejected (the same, with on_duplicate =
-- reject). A repeat whose first attempt is still being committed waits for it in one of the steps, and then sees it.
create or replace function posthouse.enqueue_special(r posthouse.request, out job uuid, out outcome text)
language plpgsql as $$
begin
  select a.job, a.outcome into job, outcome from posthouse.admit(r) as a;
  if outcome = 'created' then
    select l.outcome, l.follows into outcome, r.follows from posthouse.join_order(r) as l;
  end if;
  if outcome = 'created' then
    outcome := posthouse.store_with_edges(r);
  end if;
end $$;

-- Step one: checks whether the job is new, and acquires its dedupe key.
create or replace function posthouse.admit(
  r posthouse.request, p_wait boolean default true, out job uuid, out outcome text)
language plpgsql as $$
begin
  if r.on_duplicate not in ('existing', 'reject', 'replace', 'reuse')
     or r.on_dependency_failure not in ('cancel', 'run', 'wait') then
    raise exception 'invalid options: on_duplicate must be existing, reject, replace or reuse, not %; '
      'on_dependency_failure must be cancel, run or wait, not %', r.on_duplicate, r.on_dependency_failure
      using errcode = 'PH002';
  end if;
  job := r.id;
  outcome := 'created';
  if r.verify and posthouse.status_of(r.id) is not null then
    outcome := 'repeated';
  elsif r.dedupe_key is not null then
    job := posthouse.acquire_dedupe_key(r, p_wait);
    if job <> r.id then
      outcome := case r.on_duplicate when 'reject' then 'rejected' else 'existing' end;
    elsif r.verify and posthouse.status_of(r.id) is not null then
      outcome := 'repeated';
    end if;
  end if;
end $$;

-- Step two: appends the job to its ordered group, if it has one.
create or replace function posthouse.join_order(r posthouse.request, out follows uuid, out outcome text)
language plpgsql as $$
begin
  outcome := 'created';
  if r.order_key is null then
    return;
  end if;
  if r.verify then
    perform from posthouse.order_tails as t
    where t.tenant_id = r.tenant_id and t.order_key = r.order_key for update;
    if posthouse.status_of(r.id) is not null then
      outcome := 'repeated';
      return;
    end if;
  end if;
  follows := posthouse.append_to_order(r.tenant_id, r.order_key, r.id);
end $$;

-- Step three: stores the edges and the job itself.
create or replace function posthouse.store_with_edges(r posthouse.request) returns text
language plpgsql as $$
declare
  v_blockers integer := 0;
begin
  if not r.verify then
    if r.depends_on is not null or r.follows is not null then
      v_blockers := posthouse.write_edges(r);
    end if;
    perform posthouse.store_one(r, greatest(v_blockers, 0));
  else
    begin
      v_blockers := posthouse.write_edges(r);
      perform posthouse.store_one(r, greatest(v_blockers, 0));
      if posthouse.count_tables_with(r.id) > 1 then  -- the first attempt was committed, and the job moved on, after the check
        raise unique_violation;
      end if;
    exception when unique_violation then
      return 'repeated';
    end;
  end if;
  if v_blockers < 0 then
    perform posthouse.finish_queued(array[r.id], 'canceled', jsonb_build_object(
      'type', 'DependencyFailed', 'message', 'a job that this one depends on did not succeed'));
  end if;
  return 'created';
end $$;

-- Enqueues one job that needs nothing but an insert and whose id is new. Through JSON it took twice as long (backend:
-- 125 us instead of 65). The last step inlines enter_lane: each statement of a function costs some us in a new
-- transaction (with a call of enter_lane: 76 us instead of 68 on Postgres 18, 77 instead of 70 on 15).
create or replace function posthouse.enqueue_one(
  p_id uuid, p_kind text, p_payload jsonb, p_tenant text, p_queue text default null, p_priority integer default null,
  p_max_attempts integer default null, p_timeout real default null, p_retry jsonb default null,
  p_correlation text default null, p_subject text default null, p_source text default 'manual',
  p_source_ref text default null, p_created_by text default null, p_parent uuid default null
) returns void
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_lane bigint;
  v_key text;
  d record;
begin
  select queue, priority, max_attempts, timeout_seconds, active, limits, nullif(requires, '{}') as requires,
         nullif(prefers, '{}') as prefers
  into d from posthouse.definitions where key = p_kind;
  if not found then
    insert into posthouse.undefined_jobs (job_id, kind, took)
    values (p_id, p_kind, array_remove(array[
      'requires', 'prefers', 'limit_key', case when p_queue is null then 'queue' end,
      case when p_priority is null then 'priority' end,
      case when p_timeout is null then 'timeout_seconds' end,
      case when p_max_attempts is null then 'max_attempts' end], null));
  elsif not d.active then
    perform posthouse.raise_inactive(p_kind);
  end if;
  p_queue := coalesce(p_queue, d.queue, 'default');
  p_priority := coalesce(p_priority, d.priority, 100);
  v_key := posthouse.limit_key(d.limits, p_payload);
  if pg_column_size(p_payload) > 2048 then
    insert into posthouse.payloads (job_id, body) values (p_id, p_payload);
    p_payload := null;
  end if;
  v_lane := posthouse.lane_number(p_queue, p_kind, p_tenant, p_priority, 2, v_key, d.requires, d.prefers);
  insert into posthouse.ready (
    id, parent_id, queued_at, scheduled_for, priority, max_attempts, timeout_seconds, tenant_id, kind,
    queue, source, payload, correlation_id, subject, source_ref, created_by, retry, limit_key, requires,
    prefers, lane)
  values (
    p_id, p_parent, v_now, v_now, p_priority, coalesce(p_max_attempts, d.max_attempts, 3),
    coalesce(p_timeout, d.timeout_seconds), p_tenant, p_kind, p_queue, p_source, p_payload, p_correlation,
    p_subject, p_source_ref, p_created_by, p_retry, v_key, d.requires, d.prefers, v_lane);
  if not exists (select from posthouse.lanes as l where l.lane = v_lane) then
    perform posthouse.open_lanes(array[
      (v_lane, p_queue, p_kind, p_tenant, p_priority, 2, v_key, d.requires, d.prefers)::posthouse.lane]);
  end if;
  if posthouse.has_waiting_worker(p_queue) then
    perform pg_notify('posthouse_ready', p_queue);
  end if;
end $$;

-- Step one for many: jobs to replace are locked in one order, then keys are acquired in one order. `holders` maps each
-- job that was not created to the job that holds its key. It does not wait for a job that acquired a key in the
-- meantime (PH009).
create or replace function posthouse.admit_all(
  p_all posthouse.request[], out jobs uuid[], out outcomes text[], out holders jsonb)
language plpgsql as $$
declare
  v_replaced uuid[] := array(
    select d.job_id from unnest(p_all) as s
    join posthouse.dedupe_keys as d on d.tenant_id = s.tenant_id and d.dedupe_key = s.dedupe_key
    where s.on_duplicate = 'replace');
  v_again integer[] := array(
    select q.ordinal from (select s.ordinal, row_number() over (partition by s.id order by s.ordinal) as nth
                           from unnest(p_all) as s where s.special) as q where q.nth > 1);
  v_admitted record;
  r posthouse.request;
begin
  holders := '{}';
  if v_replaced <> '{}' then
    perform posthouse.lock_queued(v_replaced);
  end if;
  for r in
    select s.* from unnest(p_all) as s where s.special order by s.tenant_id, s.dedupe_key, s.ordinal
  loop
    if r.ordinal = any (v_again) then
      jobs[r.ordinal] := r.id;
      outcomes[r.ordinal] := 'repeated';
      continue;
    end if;
    select a.job, a.outcome into v_admitted from posthouse.admit(r, false) as a;
    jobs[r.ordinal] := v_admitted.job;
    outcomes[r.ordinal] := v_admitted.outcome;
    if v_admitted.job <> r.id then
      holders := holders || jsonb_build_object(r.id::text, v_admitted.job::text);
    end if;
  end loop;
end $$;

-- Public. Enqueues the jobs of a JSON array of objects with the fields of posthouse.enqueue. Returns for each its id and
-- an outcome: created, existing, rejected or repeated.
create or replace function posthouse.enqueue_many(p_jobs jsonb)
returns table (ordinal integer, id uuid, outcome text, queued_at timestamptz)
language plpgsql as $$
declare
  v_now timestamptz := posthouse.now();
  v_all posthouse.request[];
  v_plain posthouse.request[];
  v_admitted record;
  v_outcomes text[];
  v_follows uuid[];
  r posthouse.request;
begin
  queued_at := v_now;
  if jsonb_array_length(p_jobs) = 1 then
    select q.* into r from posthouse.requests(p_jobs, v_now) as q;
    ordinal := 1;
    id := r.id;
    outcome := 'created';
    if r.special then
      select s.job, s.outcome into id, outcome from posthouse.enqueue_special(r) as s;
    else
      perform posthouse.store_one(r);
    end if;
    return next;
    return;
  end if;
  v_all := array(select q from posthouse.requests(p_jobs, v_now) as q);
  v_plain := array(select q from unnest(v_all) as q where not q.special);
  if v_plain <> '{}' then
    perform posthouse.store_many(v_plain);
    return query select p.ordinal, p.id, 'created', v_now from unnest(v_plain) as p;
    if cardinality(v_plain) = cardinality(v_all) then
      return;
    end if;
  end if;
  -- Each step is done for all jobs, in one order, so that two callers cannot deadlock and the jobs of each ordered
  -- group are appended in the caller's order.
  loop
    begin
      select a.* into v_admitted from posthouse.admit_all(v_all) as a;
      exit;
    exception when sqlstate 'PH009' then null;  -- all locks are released: the next try takes them in order
    end;
  end loop;
  v_outcomes := v_admitted.outcomes;
  for r in
    select s.* from unnest(v_all) as s
    where s.special and s.order_key is not null and v_outcomes[s.ordinal] = 'created'
    order by s.tenant_id, s.order_key, s.ordinal
  loop
    select l.outcome, l.follows into outcome, id from posthouse.join_order(r) as l;
    v_outcomes[r.ordinal] := outcome;
    v_follows[r.ordinal] := id;
  end loop;
  -- Jobs without dependencies come first: other jobs of this call may depend on them.
  for r in
    select s.* from unnest(v_all) as s where s.special
    order by s.depends_on is not null or v_follows[s.ordinal] is not null, s.ordinal
  loop
    ordinal := r.ordinal;
    id := v_admitted.jobs[r.ordinal];
    outcome := v_outcomes[r.ordinal];
    if outcome = 'created' then
      r.follows := v_follows[r.ordinal];
      r.depends_on := nullif(array(
        select coalesce((v_admitted.holders ->> d::text)::uuid, d) from unnest(r.depends_on) as d), '{}');
      outcome := posthouse.store_with_edges(r);
    end if;
    return next;
  end loop;
end $$;

-- Public. Enqueues a job and returns its id. The job can be claimed when the transaction commits. Options are named
-- parameters: select posthouse.enqueue('welcome', '{"user_id": 7}', priority => 10).
create or replace function posthouse.enqueue(
  kind text,
  payload jsonb default '{}',
  tenant_id text default 'default',
  queue text default null,
  priority integer default null,
  scheduled_for timestamptz default null,
  delay interval default null,
  dedupe_key text default null,
  dedupe_content boolean default false,
  dedupe_window interval default null,
  on_duplicate text default 'existing',
  order_key text default null,
  depends_on uuid[] default null,
  on_dependency_failure text default 'cancel',
  max_attempts integer default null,
  timeout interval default null,
  correlation_id text default null,
  subject text default null,
  source text default 'manual',
  source_ref text default null,
  created_by text default null,
  id uuid default null,
  limit_key text default null,
  requires text[] default null,
  prefers text[] default null
) returns uuid
language plpgsql as $$
declare
  v_result record;
begin
  select e.id, e.outcome into v_result
  from posthouse.enqueue_many(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
    'kind', kind, 'tenant_id', tenant_id, 'queue', queue, 'priority', priority,
    'scheduled_for', scheduled_for, 'delay', extract(epoch from delay), 'dedupe_key', dedupe_key,
    'dedupe_content', dedupe_content, 'dedupe_window', extract(epoch from dedupe_window),
    'on_duplicate', on_duplicate, 'order_key', order_key, 'depends_on', to_jsonb(depends_on),
    'on_dependency_failure', on_dependency_failure, 'max_attempts', max_attempts,
    'timeout_seconds', extract(epoch from timeout), 'correlation_id', correlation_id,
    'subject', subject, 'source', source, 'source_ref', source_ref, 'created_by', created_by,
    'limit_key', limit_key, 'requires', requires, 'prefers', prefers, 'id', id, 'verify', id is not null)) || jsonb_build_object('payload', payload))) as e;
  if v_result.outcome = 'rejected' then
    raise exception 'dedupe key % is taken by job %', quote_literal(dedupe_key), v_result.id
      using errcode = 'PH001';
  end if;
  return v_result.id;
end $$;
