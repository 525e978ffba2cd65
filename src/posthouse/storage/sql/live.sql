-- What the console's event stream reads, several times a second.

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

-- name: live_queued
-- Ids of queued jobs in a range of ids, newest first.
(select id from posthouse.ready where id >= %(low)s and id < %(high)s order by id desc limit %(most)s)
union all
(select id from posthouse.waiting where id >= %(low)s and id < %(high)s order by id desc limit %(most)s)

-- name: live_since
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

-- name: live_changed
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

-- name: live_log_ends
-- The sequence number of the last log line of each job.
select j.id, (select max(l.sequence) from posthouse.log_lines as l where l.job_id = j.id) as sequence
from unnest(%(ids)s::uuid[]) as j (id)

-- name: live_workers
-- The changing state and load of each worker.
select w.id, w.name, w.hostname, posthouse.worker_status(w, coalesce(r.running, 0), %(offline_after)s) as status,
       coalesce(r.running, 0)::integer as running, w.concurrency, w.queues, w.disabled_at, w.drain_asked_at
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
