-- Statistics: samples of each minute, totals, and the jobs that finished recently.

-- The histogram bucket of a time; bucket 0 holds all times up to 0.1 ms. posthouse.insights.stats has the inverse. Not
-- declared strict: then it would not be inlined, and cost 30 times as much.
create or replace function posthouse.bucket(p_seconds double precision) returns smallint
language sql immutable parallel safe as $$
  select case when p_seconds is not null
    then ceil(8 / ln(2.0::double precision) * ln(least(greatest(p_seconds * 10000, 1), 1e12)))::smallint end
$$;

-- The time at which a job became ready; null for jobs that waited for others, because the end of the last of these is
-- not recorded.
create or replace function posthouse.ready_since(
  p_queued_at timestamptz, p_scheduled_for timestamptz, p_depends_on uuid[], p_order_key text
) returns timestamptz
language sql immutable parallel safe as $$
  select case when p_depends_on is null and p_order_key is null then greatest(p_queued_at, p_scheduled_for) end
$$;

create or replace function posthouse.minute_of(p_at timestamptz) returns timestamptz
language sql immutable strict parallel safe as $$
  select date_bin('1 minute', p_at, '2000-01-01 00:00:00+00')
$$;

-- Samples the minutes from p_from to p_to in one pass; a repeated call adds what the first one missed. p_ready_percent
-- and p_waiting_percent: the percentage of pages of these tables to read. Times are taken of every p_every-th ended job
-- only, each of which counts p_every times. The settings keep the planner on the block-range indexes, even with
-- misleading statistics for a new partition. Returns the number of samples of these minutes.
create or replace function posthouse.sample(
  p_from timestamptz, p_to timestamptz, p_with_backlog boolean default true, p_ready_percent real default 100,
  p_waiting_percent real default 100, p_every integer default 1
) returns integer
language plpgsql
set enable_seqscan = off
set enable_indexscan = off
set jit = off  -- disabled plan nodes have a huge cost, which would trigger JIT compilation
set work_mem = '64MB'  -- keeps its groups in memory: with less, 2.4 million rows spilled to disk
set plan_cache_mode = force_custom_plan
as $$
declare
  v_now timestamptz := posthouse.now();
  v_last timestamptz := p_to - interval '1 minute';
  v_rows integer;
begin
  with attempts as materialized (
    select
      case when h.finished_at < p_to then posthouse.minute_of(h.finished_at) end as ended_in,
      case when h.queued_at >= p_from and h.queued_at < p_to then posthouse.minute_of(h.queued_at) end as arrived_in,
      h.tenant_id, h.queue, h.kind,
      case when h.position % p_every = 0 then posthouse.bucket(date_part('epoch', h.attempt_started_at
        - posthouse.ready_since(h.queued_at, h.scheduled_for, h.depends_on, h.order_key))) end as wait,
      case when h.position % p_every = 0 then
        posthouse.bucket(date_part('epoch', h.finished_at - h.attempt_started_at)) end as run,
      count(*) * p_every as attempts,
      count(*) as jobs,
      count(*) filter (where h.status = 'succeeded') as succeeded,
      count(*) filter (where h.status = 'failed') as failed,
      count(*) filter (where h.status = 'dead_letter') as dead_letter,
      count(*) filter (where h.status <> 'succeeded'
        and h.outcome in ('failed', 'timeout', 'crashed', 'lost')) as failures,
      0::bigint as retries,
      count(*) filter (where h.outcome = 'lost') as rescues
    from posthouse.history as h
    where h.finished_at >= p_from
    group by 1, 2, 3, 4, 5, 6, 7
    union all
    select
      posthouse.minute_of(a.finished_at), null::timestamptz, a.tenant_id, a.queue, a.kind,
      posthouse.bucket(date_part('epoch', a.started_at - a.ready_at)),
      posthouse.bucket(date_part('epoch', a.finished_at - a.started_at)),
      count(*), 0, 0, 0, 0,
      count(*) filter (where a.outcome in ('failed', 'timeout', 'crashed', 'lost')),
      count(*) filter (where a.outcome in ('failed', 'timeout', 'crashed', 'lost')),
      count(*) filter (where a.outcome = 'lost')
    from posthouse.past_attempts as a
    where a.finished_at >= p_from and a.finished_at < p_to and a.outcome <> 'released' and a.queue is not null
    group by 1, 2, 3, 4, 5, 6, 7
  ), ready as (
    select case when queued_at >= p_from and queued_at < p_to then posthouse.minute_of(queued_at) end as arrived_in,
           tenant_id, queue, kind, count(*) * 100 / p_ready_percent as jobs,
           min(greatest(queued_at, scheduled_for)) as oldest
    from posthouse.ready tablesample system (p_ready_percent) group by 1, 2, 3, 4
  ), waiting as (
    select case when queued_at >= p_from and queued_at < p_to then posthouse.minute_of(queued_at) end as arrived_in,
           tenant_id, queue, kind, count(*) * 100 / p_waiting_percent as jobs
    from posthouse.waiting tablesample system (p_waiting_percent) group by 1, 2, 3, 4
  ), running as (
    select case when queued_at >= p_from and queued_at < p_to then posthouse.minute_of(queued_at) end as arrived_in,
           tenant_id, queue, kind, count(*) as jobs
    from posthouse.running tablesample system (100) group by 1, 2, 3, 4
  ), counted (minute, tenant_id, queue, kind, arrivals, ended, succeeded, failed, dead_letter, failures,
              retries, rescues, ready, waiting, running, oldest) as (
    select ended_in, tenant_id, queue, kind, 0::double precision, jobs, succeeded, failed, dead_letter, failures, retries,
           rescues,
           0::double precision, 0::double precision, 0::bigint, null::timestamptz
    from attempts where ended_in is not null
    union all
    select arrived_in, tenant_id, queue, kind, jobs, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, null
    from (select arrived_in, tenant_id, queue, kind, jobs from attempts
          union all select arrived_in, tenant_id, queue, kind, jobs from ready
          union all select arrived_in, tenant_id, queue, kind, jobs from waiting
          union all select arrived_in, tenant_id, queue, kind, jobs from running) as arrived
    where arrived_in is not null
    union all
    select v_last, tenant_id, queue, kind, 0, 0, 0, 0, 0, 0, 0, 0, jobs, 0, 0, oldest from ready where p_with_backlog
    union all
    select v_last, tenant_id, queue, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, jobs, 0, null from waiting where p_with_backlog
    union all
    select v_last, tenant_id, queue, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, jobs, null from running where p_with_backlog
  ), sums as (
    select minute, tenant_id, queue, kind, sum(arrivals) as arrivals, sum(ended) as ended,
           sum(succeeded) as succeeded, sum(failed) as failed, sum(dead_letter) as dead_letter, sum(failures) as failures, sum(retries) as retries,
           sum(rescues) as rescues, sum(ready) as ready,
           sum(waiting) as waiting, sum(running) as running, min(oldest) as oldest
    from counted group by 1, 2, 3, 4
  ), waits as (
    select ended_in as minute, tenant_id, queue, kind, array_agg(bucket order by bucket) as buckets,
           array_agg(attempts order by bucket) as counts
    from (select ended_in, tenant_id, queue, kind, wait as bucket, sum(attempts)::integer as attempts
          from attempts where ended_in is not null and wait is not null group by 1, 2, 3, 4, 5) as w
    group by 1, 2, 3, 4
  ), runs as (
    select ended_in as minute, tenant_id, queue, kind, array_agg(bucket order by bucket) as buckets,
           array_agg(attempts order by bucket) as counts
    from (select ended_in, tenant_id, queue, kind, run as bucket, sum(attempts)::integer as attempts
          from attempts where ended_in is not null and run is not null group by 1, 2, 3, 4, 5) as r
    group by 1, 2, 3, 4
  )
  insert into posthouse.samples as s (
    minute, tenant_id, queue, kind, arrivals, ended, succeeded, failed, dead_letter, failures, retries, rescues, ready,
    waiting, running, oldest_seconds, wait_buckets, wait_counts, run_buckets, run_counts)
  select
    c.minute, c.tenant_id, c.queue, c.kind, c.arrivals, c.ended, c.succeeded, c.failed, c.dead_letter, c.failures,
    c.retries, c.rescues,
    case when b.known then c.ready end, case when b.known then c.waiting end, case when b.known then c.running end,
    date_part('epoch', v_now - c.oldest),
    coalesce(w.buckets, '{}'), coalesce(w.counts, '{}'), coalesce(r.buckets, '{}'), coalesce(r.counts, '{}')
  from sums as c
  cross join lateral (select p_with_backlog and c.minute = v_last as known) as b
  left join waits as w using (minute, tenant_id, queue, kind)
  left join runs as r using (minute, tenant_id, queue, kind)
  order by c.minute, c.tenant_id, c.queue, c.kind
  on conflict (minute, tenant_id, queue, kind) do update set
    arrivals = greatest(s.arrivals, excluded.arrivals),
    -- A job that was retried since then has not ended any more: the earlier, higher counts stay.
    ended = greatest(s.ended, excluded.ended),
    succeeded = greatest(s.succeeded, excluded.succeeded),
    failed = greatest(s.failed, excluded.failed),
    dead_letter = greatest(s.dead_letter, excluded.dead_letter),
    failures = greatest(s.failures, excluded.failures),
    retries = greatest(s.retries, excluded.retries),
    rescues = greatest(s.rescues, excluded.rescues),
    ready = coalesce(s.ready, excluded.ready), waiting = coalesce(s.waiting, excluded.waiting),
    running = coalesce(s.running, excluded.running),
    oldest_seconds = coalesce(s.oldest_seconds, excluded.oldest_seconds),
    wait_buckets = excluded.wait_buckets, wait_counts = excluded.wait_counts,
    run_buckets = excluded.run_buckets, run_counts = excluded.run_counts;
  get diagnostics v_rows = row_count;
  return v_rows;
end $$;

-- The percentage of a table's pages to read, so that it is at most p_max_pages pages.
create or replace function posthouse.table_sample_percent(p_table regclass, p_max_pages integer) returns real
language sql stable as $$
  select least(100, 100.0 * p_max_pages / greatest(pg_relation_size(p_table) / 8192, 1))::real
$$;

-- Whether a transaction that began before this time is still open: its writes of that time are not visible yet. True
-- also if other roles' transactions are hidden from this role, since their age is then unknown.
create or replace function posthouse.has_transaction_older_than(p_at timestamptz) returns boolean
language sql stable as $$
  select exists (
    select from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
      and (state is null or (state not in ('idle', 'disabled')
           and xact_start < p_at - (posthouse.now() - clock_timestamp()))))
$$;

-- Samples the minutes that have ended and were not sampled yet, p_lag after their end, and once more those that may
-- have missed late commits; no minutes older than p_max_age. One caller at a time: a concurrent call returns 0. At most
-- p_pages pages of ready and of waiting are read: of larger tables, the backlog, and the arrivals that are still in it,
-- are estimates. If more than p_times jobs ended in the previous minute, times are taken of about p_times; counts are
-- exact in any case. Returns how many minutes were sampled.
create or replace function posthouse.sample_due_minutes(
  p_lag interval default '2 seconds', p_max_age interval default '1 hour', p_pages integer default 5000,
  p_times integer default 200000
) returns integer
language plpgsql as $$
declare
  v_began timestamptz := clock_timestamp();
  v_now timestamptz := posthouse.now();
  v_to timestamptz := posthouse.minute_of(v_now - p_lag);
  v_next timestamptz;
  v_from timestamptz;
  v_sealed boolean;
  v_every integer;
  v_fresh boolean := v_now - v_to < interval '1 minute';
begin
  if not pg_try_advisory_xact_lock(7708, 1) then
    return 0;
  end if;
  v_next := coalesce((select max(m.minute) + interval '1 minute' from posthouse.sampled_minutes as m),
                     v_to - interval '1 minute');
  if v_next >= v_to then
    return 0;
  end if;
  perform posthouse.summarize_brin_indexes();
  v_from := greatest(least(v_next, (select min(m.minute) from posthouse.sampled_minutes as m where not m.sealed)),
                     v_to - p_max_age);
  v_sealed := not posthouse.has_transaction_older_than(v_to);
  v_every := coalesce((
    select sum(s.ended) / p_times from posthouse.samples as s where s.minute = v_next - interval '1 minute'), 0) + 1;
  perform posthouse.sample(
    v_from, v_to, v_fresh,
    posthouse.table_sample_percent('posthouse.ready', p_pages), posthouse.table_sample_percent('posthouse.waiting', p_pages),
    v_every);
  insert into posthouse.sampled_minutes as m (minute, sealed, backlog, seconds)
  select minute, v_sealed, v_fresh and minute = v_to - interval '1 minute', date_part('epoch', clock_timestamp() - v_began)
  from generate_series(v_from, v_to - interval '1 minute', interval '1 minute') as minute
  on conflict (minute) do update set sample_count = m.sample_count + 1, sealed = true, seconds = excluded.seconds;
  update posthouse.sampled_minutes set sealed = true where not sealed and minute < v_from;
  perform posthouse.add_totals();
  return extract(epoch from v_to - v_from)::integer / 60;
end $$;

-- Adds samples to the totals when they are final and not in the totals yet.
create or replace function posthouse.add_totals() returns void
language plpgsql as $$
declare
  v_from timestamptz;
  v_to timestamptz;
begin
  select u.minute into v_from from posthouse.totals_until as u for update;
  select coalesce(min(m.minute) filter (where not m.sealed), max(m.minute) + interval '1 minute') into v_to
  from posthouse.sampled_minutes as m where m.minute >= v_from;
  if v_to is null or v_to <= v_from then
    return;
  end if;
  update posthouse.totals_until set minute = v_to;
  insert into posthouse.total_jobs as t (
    tenant_id, queue, kind, first_minute, arrivals, ended, succeeded, failed, dead_letter, failures, retries, rescues)
  select s.tenant_id, s.queue, s.kind, min(s.minute), sum(s.arrivals), sum(s.ended), sum(s.succeeded),
         sum(s.failed), sum(s.dead_letter), sum(s.failures), sum(s.retries), sum(s.rescues)
  from posthouse.samples as s
  where s.minute >= v_from and s.minute < v_to
  group by 1, 2, 3
  on conflict (tenant_id, queue, kind) do update set
    arrivals = t.arrivals + excluded.arrivals, ended = t.ended + excluded.ended,
    succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed,
    dead_letter = t.dead_letter + excluded.dead_letter,
    failures = t.failures + excluded.failures, retries = t.retries + excluded.retries,
    rescues = t.rescues + excluded.rescues;
  insert into posthouse.total_times as t (queue, kind, what, octave, attempts, seconds)
  select s.queue, s.kind, h.what, ceil(h.bucket / 8.0), sum(h.n), sum(h.n * 0.0001 * 2 ^ ((h.bucket - 0.5) / 8))
  from posthouse.samples as s
  cross join lateral (
    select 'wait' as what, w.* from unnest(s.wait_buckets, s.wait_counts) as w (bucket, n)
    union all
    select 'run', r.* from unnest(s.run_buckets, s.run_counts) as r (bucket, n)) as h
  where s.minute >= v_from and s.minute < v_to
  group by 1, 2, 3, 4
  on conflict (queue, kind, what, octave) do update set
    attempts = t.attempts + excluded.attempts, seconds = t.seconds + excluded.seconds;
end $$;

-- Summarizes new pages in the block-range indexes, which would otherwise be read in full on each search. It gives way
-- to a vacuum, which does the same. Only the owner of an index may do this.
create or replace function posthouse.summarize_brin_indexes() returns void
language plpgsql security definer
set search_path = pg_catalog
set lock_timeout = '100ms'
as $$
declare
  v_index regclass;
begin
  for v_index in
    select i.indexrelid::regclass
    from pg_partition_tree('posthouse.history_finished') as t join pg_index as i on i.indexrelid = t.relid
    where t.isleaf
    union all
    select i.indexrelid::regclass
    from pg_partition_tree('posthouse.past_attempts_finished') as t join pg_index as i on i.indexrelid = t.relid
    where t.isleaf
  loop
    begin
      perform brin_summarize_new_values(v_index);
    exception
      when lock_not_available then null;
    end;
  end loop;
end $$;

-- Deletes samples of minutes before p_before; returns how many.
create or replace function posthouse.delete_old_samples(p_before timestamptz) returns integer
language plpgsql as $$
declare
  v_gone integer;
begin
  delete from posthouse.samples where minute < p_before;
  get diagnostics v_gone = row_count;
  delete from posthouse.sampled_minutes where minute < p_before and minute < (
    select max(m.minute) from posthouse.sampled_minutes as m);
  return v_gone;
end $$;

-- Ids in history (or past_attempts) with a finish time later than p_since, from the newest p_pages pages of each day.
-- Both tables are append-only, so the newest rows are at the end, and no index is needed for this.
create or replace function posthouse.recently_finished_ids(p_table text, p_since timestamptz, p_pages integer)
returns table (id uuid, at timestamptz)
language plpgsql stable as $$
declare
  v_day date;
  v_part regclass;
  v_page bigint;
begin
  for v_day in
    select generate_series((p_since at time zone 'UTC')::date, (posthouse.now() at time zone 'UTC')::date, '1 day')
  loop
    v_part := coalesce(to_regclass('posthouse.' || posthouse.partition_name(p_table, v_day)),
                       to_regclass('posthouse.' || p_table || '_default'));
    v_page := greatest(0, pg_relation_size(v_part) / current_setting('block_size')::integer - p_pages);
    return query execute format(
      'select %I, finished_at from %s where ctid >= $1 and finished_at > $2',
      case p_table when 'history' then 'id' else 'job_id' end, v_part)
      using format('(%s,0)', v_page)::tid, p_since;
  end loop;
end $$;
