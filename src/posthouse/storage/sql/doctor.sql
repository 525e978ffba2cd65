-- The checks of the doctor.

-- name: doctor_bloat
-- Dead rows in the busiest tables, and whether autovacuum is on.
select
  c.relname::text as table, s.n_live_tup as live, s.n_dead_tup as dead,
  greatest(s.last_autovacuum, s.last_vacuum) as last_vacuum, pg_total_relation_size(c.oid) as bytes,
  current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean
    and coalesce((select o.option_value::boolean from pg_options_to_table(c.reloptions) as o
                  where o.option_name = 'autovacuum_enabled'), true) as autovacuum
from pg_class as c
join pg_stat_all_tables as s on s.relid = c.oid
where s.schemaname = 'posthouse'
  and s.relname in ('ready', 'waiting', 'running', 'dedupe_keys', 'job_dependencies', 'order_tails', 'workers')
order by s.n_dead_tup desc

-- name: doctor_claimed_queues
-- Queues from which a job was claimed recently. An attempt that started is still running, was recorded as a past
-- attempt, or ended its job.
select distinct queue
from (
  select queue from posthouse.running
  where attempt_started_at > posthouse.now() - make_interval(secs => %(within)s)
  union all
  select queue from posthouse.history
  where finished_at > posthouse.now() - make_interval(secs => %(within)s)
    and attempt_started_at > posthouse.now() - make_interval(secs => %(within)s)
  union all
  select j.queue
  from posthouse.past_attempts as a join posthouse.waiting as j on j.id = a.job_id
  where a.finished_at > posthouse.now() - make_interval(secs => %(within)s)
    and a.started_at > posthouse.now() - make_interval(secs => %(within)s)
) as claims

-- name: doctor_connections
-- Connections in use, and the maximum for ordinary users.
select
  (select count(*) from pg_stat_activity where backend_type = 'client backend')::integer as used,
  current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true)::integer, 0) as allowed

-- name: doctor_durability
-- Settings without which accepted jobs can be lost or damaged in a crash.
select current_setting('fsync')::boolean as fsync,
       current_setting('full_page_writes')::boolean as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit

-- name: doctor_horizon
-- Sessions, prepared transactions, slots and standbys that keep dead rows from being removed, worst first.
select holder, pid, name, "user", application, state, query, since, age_seconds, age_transactions
from (
  select 'session' as holder, a.pid, null as name, a.usename::text as "user",
         a.application_name as application, a.state, left(regexp_replace(a.query, '\s+', ' ', 'g'), 160) as query,
         a.xact_start as since, extract(epoch from clock_timestamp() - a.xact_start)::double precision as age_seconds,
         greatest(age(a.backend_xmin), age(a.backend_xid)) as age_transactions
  from pg_stat_activity as a
  where a.datname = current_database() and a.pid <> pg_backend_pid()
    and a.backend_type <> 'autovacuum worker'  -- other vacuums ignore its snapshot
    and (a.backend_xmin is not null or a.backend_xid is not null)
  union all
  select 'prepared transaction', null, p.gid, p.owner::text, null, 'prepared', null,
         p.prepared, extract(epoch from clock_timestamp() - p.prepared)::double precision, age(p.transaction)
  from pg_prepared_xacts as p
  where p.database = current_database()
  union all
  select 'replication slot', s.active_pid, s.slot_name::text, null, null,
         case when s.active then 'active' else 'inactive' end, null, null, null, age(s.xmin)
  from pg_replication_slots as s
  where s.xmin is not null
  union all
  select 'standby feedback', r.pid, null, r.usename::text, r.application_name, r.state, null, null, null,
         age(r.backend_xmin)
  from pg_stat_replication as r
  where r.backend_xmin is not null
) as holders
order by age_seconds desc nulls last, age_transactions desc

-- name: doctor_keepers
-- Whether a keeper is connected, and how many due jobs it should have promoted by now.
select
  (select count(*) from pg_stat_activity
   where datname = current_database() and application_name = 'posthouse keeper')::integer as sessions,
  (select count(*) from (
     select from posthouse.waiting
     where blockers = 0 and due_at < posthouse.now() - make_interval(secs => %(grace)s)
     limit %(limit)s) as late)::integer as overdue

-- name: doctor_expired_leases
-- Expired leases whose jobs were not rescued.
select
  r.id, r.kind, r.worker_id, w.name as worker_name,
  extract(epoch from posthouse.now() - r.lease_expires_at)::double precision as expired_seconds
from posthouse.running as r
left join posthouse.workers as w on w.id = r.worker_id
where r.lease_expires_at < posthouse.now() - make_interval(secs => %(grace)s)
order by r.lease_expires_at
limit %(limit)s

-- name: doctor_waiting
-- Jobs that could start, by queue, kind and required capabilities: since when the first one has waited, how many
-- workers could claim them, and whether they are paused or limited. Reads only the head of each lane; jobs are counted
-- up to a limit.
with lane as materialized (
  select distinct on (l.lane) l.* from posthouse.lanes as l
), line as (
  select lane.queue, lane.kind, lane.requires, min(head.since) as since,
         least(sum(depth.jobs), %(limit)s)::integer as jobs, bool_and(held.limited) as limited
  from lane
  cross join lateral (
    select greatest(r.queued_at, r.scheduled_for) as since from posthouse.ready as r
    where r.lane = lane.lane order by r.position limit 1) as head
  cross join lateral (
    select count(*) as jobs
    from (select from posthouse.ready as r where r.lane = lane.lane limit %(limit)s) as r) as depth
  cross join lateral (
    select exists (
      select from posthouse.limits as l
      left join posthouse.limit_slots as s
        on s.slot = posthouse.slot_of(l, lane.queue, lane.kind, lane.tenant_id, lane.limit_key)
      where posthouse.slot_of(l, lane.queue, lane.kind, lane.tenant_id, lane.limit_key) is not null
        and (coalesce(s.in_use, 0) >= l.max_running
             or posthouse.refilled(l, s, posthouse.now()) < posthouse.start_cost(l, lane.kind))) as limited) as held
  group by lane.queue, lane.kind, lane.requires
)
select
  line.queue, line.kind, line.requires, line.jobs, line.since,
  extract(epoch from posthouse.now() - line.since)::double precision as waited_seconds,
  exists (select from posthouse.queues as q where q.name = line.queue and q.paused_at is not null) as paused,
  line.limited, served.workers, served.free,
  exists (select from posthouse.definitions as d where d.key = line.kind) as defined
from line
cross join lateral (
  select count(*)::integer as workers, coalesce(sum(greatest(w.concurrency - n.running, 0)), 0)::integer as free
  from posthouse.workers as w
  cross join lateral (
    select count(*) as running from posthouse.running as r where r.worker_id = w.id) as n
  where posthouse.accepts_jobs(w, %(offline_after)s)
    and line.queue = any (w.queues) and line.kind = any (w.kinds)
    and coalesce(posthouse.meets(line.requires, w.capabilities, w.code), true)) as served
order by line.since

-- name: doctor_missing_partitions
-- Partitions of the coming days that are missing.
select distinct k.relation as table, date_trunc(k.partition_interval, d)::date as day
from posthouse.effective_retention_rules() as k
cross join generate_series(
  (posthouse.now() at time zone 'UTC')::date::timestamp,
  (posthouse.now() at time zone 'UTC')::date::timestamp + make_interval(days => %(days)s::integer),
  interval '1 day') as d
where k.relation in (select posthouse.partitioned_tables())
  and not exists (
    select from posthouse.partitions() as p
    where p.relation = k.relation and p.partition = posthouse.partition_name(k.relation, d::date, k.partition_interval))
order by day, k.relation

-- name: doctor_version
-- The Postgres version, and whether this user may see other sessions.
select current_setting('server_version_num')::integer as number, current_setting('server_version') as version,
       pg_has_role('pg_read_all_stats', 'usage') as sees_all

-- name: doctor_speed
-- Server settings that affect the speed of the queue, as this session sees them.
select current_setting('jit')::boolean as jit,
       (select s.setting::bigint * 1048576 from pg_settings as s where s.name = 'max_wal_size') as max_wal_bytes,
       (select s.setting::bigint * current_setting('block_size')::bigint from pg_settings as s
        where s.name = 'shared_buffers') as buffer_bytes,
       current_setting('random_page_cost')::double precision as random_page_cost,
       current_database() as database

-- name: doctor_timeout
-- Sets the statement timeout of a check for its transaction.
select set_config('statement_timeout', %(milliseconds)s::text, true)
