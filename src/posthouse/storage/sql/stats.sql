-- Statistics, and what has changed for live streams.

-- name: samples_series
-- Samples per interval, grouped by the requested columns.
with chosen as materialized (
  select
    date_bin(make_interval(secs => %(step)s), s.minute, '2000-01-01 00:00:00+00') as at, s.*,
    case when 'tenant' = any (%(by)s::text[]) then s.tenant_id end as tenant,
    case when 'queue' = any (%(by)s::text[]) then s.queue end as in_queue,
    case when 'kind' = any (%(by)s::text[]) then s.kind end as of_kind
  from posthouse.samples as s
  where s.minute >= %(since)s and s.minute < %(until)s
    and (%(tenant)s::text is null or s.tenant_id = %(tenant)s::text)
    and (%(queue)s::text is null or s.queue = %(queue)s::text)
    and (%(kind)s::text is null or s.kind = %(kind)s::text)
), last_minutes as (
  select date_bin(make_interval(secs => %(step)s), m.minute, '2000-01-01 00:00:00+00') as at, max(m.minute) as minute
  from posthouse.sampled_minutes as m
  where m.backlog and m.minute >= %(since)s and m.minute < %(until)s
  group by 1
), counted as (
  select c.at, tenant, in_queue, of_kind, sum(arrivals) as arrivals, sum(ended) as ended, sum(succeeded) as succeeded,
         sum(failed) as failed, sum(dead_letter) as dead_letter, sum(failures) as failures,
         -- The backlog at the end of an interval, not summed over its minutes.
         sum(ready) filter (where c.minute = l.minute) as ready,
         sum(waiting) filter (where c.minute = l.minute) as waiting,
         sum(running) filter (where c.minute = l.minute) as running,
         max(oldest_seconds) filter (where c.minute = l.minute) as oldest_seconds
  from chosen as c left join last_minutes as l on l.at = c.at
  group by 1, 2, 3, 4
), waits as (
  select at, tenant, in_queue, of_kind, array_agg(bucket) as buckets, array_agg(n) as counts
  from (select at, tenant, in_queue, of_kind, u.bucket, sum(u.n)::bigint as n
        from chosen cross join unnest(wait_buckets, wait_counts) as u (bucket, n) group by 1, 2, 3, 4, 5) as w
  group by 1, 2, 3, 4
), runs as (
  select at, tenant, in_queue, of_kind, array_agg(bucket) as buckets, array_agg(n) as counts
  from (select at, tenant, in_queue, of_kind, u.bucket, sum(u.n)::bigint as n
        from chosen cross join unnest(run_buckets, run_counts) as u (bucket, n) group by 1, 2, 3, 4, 5) as r
  group by 1, 2, 3, 4
)
select c.*, w.buckets as wait_buckets, w.counts as wait_counts, r.buckets as run_buckets, r.counts as run_counts
from counted as c
left join waits as w on w.at = c.at and (w.tenant, w.in_queue, w.of_kind)
  is not distinct from (c.tenant, c.in_queue, c.of_kind)
left join runs as r on r.at = c.at and (r.tenant, r.in_queue, r.of_kind)
  is not distinct from (c.tenant, c.in_queue, c.of_kind)
order by c.tenant, c.in_queue, c.of_kind, c.at

-- name: samples_complete_steps
-- The intervals for which the backlog at the end is known.
select distinct date_bin(make_interval(secs => %(step)s), m.minute, '2000-01-01 00:00:00+00') as at
from posthouse.sampled_minutes as m
where m.backlog and m.minute >= %(since)s and m.minute < %(until)s

-- name: totals_jobs
-- The totals. Only the first tenants, and the first pairs of queue and kind, are named; the rest are summed as "other",
-- which bounds the number of metrics. Ordered by first appearance, so that a name, once used, stays.
with tenants as (
  select tenant_id, row_number() over (order by min(first_minute), tenant_id) as nth
  from posthouse.total_jobs group by tenant_id
), lines as (
  select queue, kind, row_number() over (order by min(first_minute), queue, kind) as nth
  from posthouse.total_jobs group by queue, kind
)
select
  case when t.nth <= %(tenants)s then j.tenant_id else 'other' end as tenant_id,
  case when l.nth <= %(lines)s then j.queue else 'other' end as queue,
  case when l.nth <= %(lines)s then j.kind else 'other' end as kind,
  sum(arrivals)::bigint as arrivals, sum(ended)::bigint as ended, sum(succeeded)::bigint as succeeded,
  sum(failed)::bigint as failed, sum(dead_letter)::bigint as dead_letter, sum(failures)::bigint as failures, sum(retries)::bigint as retries,
  sum(rescues)::bigint as rescues
from posthouse.total_jobs as j join tenants as t using (tenant_id) join lines as l using (queue, kind)
group by 1, 2, 3
order by 1, 2, 3

-- name: totals_times
-- Totals of waits and run times, with the same names as totals_jobs.
with lines as (
  select queue, kind, row_number() over (order by min(first_minute), queue, kind) as nth
  from posthouse.total_jobs group by queue, kind
)
select
  case when l.nth <= %(lines)s then t.queue else 'other' end as queue,
  case when l.nth <= %(lines)s then t.kind else 'other' end as kind,
  what, octave, sum(attempts)::bigint as attempts, sum(seconds)::double precision as seconds
from posthouse.total_times as t join lines as l using (queue, kind)
group by 1, 2, 3, 4
order by 1, 2, 3, 4

-- name: totals_until
-- The age of the last minute in the totals; null without one.
select extract(epoch from posthouse.now() - minute)::double precision from posthouse.totals_until
where isfinite(minute)

-- name: delete_old_samples
-- Deletes samples older than a number of days.
select posthouse.delete_old_samples(posthouse.now() - make_interval(secs => %(days)s * 86400))

-- name: live_clock
-- The time by the clock of Posthouse, which records use, and the time that ids contain.
select posthouse.now(), clock_timestamp()

-- name: live_running
-- Running jobs with their worker, and a hash that changes with every visible change. Read several times a second.
select uuid_send(id), uuid_send(worker_id),
       hashtextextended(concat_ws('|', generation, attempt_count, progress_percent, current_step,
                                  cancel_requested_at is null), 0)
from posthouse.running
where %(ids)s::uuid[] is null or id = any (%(ids)s::uuid[])

-- name: live_enqueued_between
-- Ids of queued jobs in a range of ids, newest first.
(select id from posthouse.ready where id >= %(low)s and id < %(high)s order by id desc limit %(most)s)
union all
(select id from posthouse.waiting where id >= %(low)s and id < %(high)s order by id desc limit %(most)s)

-- name: live_changed_ids
-- Ids of jobs that may have changed since a time: running jobs, jobs queued or ended since then, and jobs with an
-- attempt that ended since then. One id more than the limit means that there are too many.
select id from (
  (select id from posthouse.running limit %(most)s + 1)
  union
  (select id from posthouse.ready where id >= %(low)s limit %(most)s + 1)
  union
  (select id from posthouse.waiting where id >= %(low)s limit %(most)s + 1)
  union
  (select id from posthouse.history where finished_at > %(since)s limit %(most)s + 1)
  union
  (select job_id from posthouse.past_attempts where finished_at > %(since)s limit %(most)s + 1)) as changed
limit %(most)s + 1

-- name: live_changed_jobs
-- Jobs by id, of each tenant a limited number of the newest; `of_tenant` is their total number. Jobs that ended before
-- a time are left out: they have not changed, and finding them would mean searching every partition.
select * from (
  select
    @listed@,
    count(*) over (partition by tenant_id) as of_tenant,
    row_number() over (partition by tenant_id order by id desc) as nth
  from posthouse.jobs
  where id = any (%(ids)s) and (finished_at is null or finished_at > coalesce(%(since)s::timestamptz, '-infinity'))
    and (%(tenants)s::text[] is null or tenant_id = any (%(tenants)s::text[]))) as found
where nth <= %(most)s

-- name: live_log_sequences
-- The sequence number of the last log line of each job.
select j.id, (select max(l.sequence) from posthouse.log_lines as l where l.job_id = j.id) as sequence
from unnest(%(ids)s::uuid[]) as j (id)

-- name: live_workers
-- The changing state and load of each worker.
select w.id, w.name, w.hostname, posthouse.worker_status(w, coalesce(r.running, 0), %(offline_after)s) as status,
       coalesce(r.running, 0)::integer as running, w.concurrency, w.queues, w.disabled_at, w.drain_requested_at
from posthouse.workers as w
left join (select worker_id, count(*) as running from posthouse.running group by 1) as r on r.worker_id = w.id
where posthouse.is_online(w, %(offline_after)s)
  or greatest(w.stopped_at, w.heartbeat_at, w.started_at) > posthouse.now() - interval '1 hour'

-- name: await_endings
-- Requests notifications about finished jobs for this session.
select pg_advisory_lock_shared(7703, 0)

-- name: unawait_endings
-- Cancels the notifications about finished jobs of this session.
select pg_advisory_unlock_shared(7703, 0)

-- name: log_follow
-- Requests notifications about the log of a job for this session.
select pg_advisory_lock_shared(7706, hashtext((%(id)s)::uuid::text))

-- name: log_unfollow
-- Cancels the notifications about the log of a job.
select pg_advisory_unlock_shared(7706, hashtext((%(id)s)::uuid::text))
