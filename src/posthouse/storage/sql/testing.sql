-- Statements of posthouse.testing, the demos and the benchmark.

-- name: testing_active
-- Counts running, ready and due jobs of these queues and kinds. A due job stays in waiting as long as another
-- transaction locks it.
select (select count(*) from posthouse.ready where queue = any (%(queues)s) and kind = any (%(kinds)s))
     + (select count(*) from posthouse.running where queue = any (%(queues)s) and kind = any (%(kinds)s))
     + (select count(*) from posthouse.waiting where queue = any (%(queues)s) and kind = any (%(kinds)s)
          and blockers = 0 and due_at <= posthouse.now())

-- name: testing_ended
-- Ended jobs by status.
select status, count(*) from posthouse.history group by status

-- name: testing_queued
-- Queued jobs, oldest first.
select * from posthouse.jobs
where status = 'queued' and (%(kind)s::text is null or kind = %(kind)s)
order by queued_at, id

-- name: demo_enqueue
-- Enqueues a demo of an application; while one with the same subject is active, that job is returned. A demo that fails
-- is not retried: its error is shown at once.
select posthouse.enqueue(%(kind)s, %(payload)s::jsonb, tenant_id => %(tenant)s, queue => 'demo', max_attempts => 1,
  dedupe_key => %(subject)s, subject => %(subject)s, correlation_id => %(subject)s, created_by => %(actor)s)

-- name: demo_lock
-- Locks a demo for this session; false if another session has the lock.
select pg_try_advisory_lock(hashtextextended('posthouse.demo ' || %(name)s, 0))

-- name: bench_define
-- Defines the kind of the benchmark's jobs, so that they are enqueued like those of an application.
select posthouse.announce('[{"key": "noop"}]')

-- name: bench_reset
-- Truncates all job tables.
truncate posthouse.ready, posthouse.waiting, posthouse.running, posthouse.history, posthouse.past_attempts,
  posthouse.payloads, posthouse.lanes, posthouse.dedupe_keys, posthouse.job_dependencies, posthouse.workers

-- name: bench_now
-- The database's time.
select clock_timestamp()

-- name: bench_nth
-- The nth job of its lane.
select id from posthouse.ready order by lane, position offset %s - 1 limit 1

-- name: bench_running
-- Whether a job is running.
select 1 from posthouse.running where id = %s

-- name: bench_ended
-- Whether a job has finished.
select 1 from posthouse.history where id = %s

-- name: bench_second_start
-- When a job's second attempt started.
select attempt_started_at from posthouse.history where id = %s and attempt_count > 1

-- name: bench_results
-- The results of the jobs among these that have finished.
select id, result #>> '{}' from posthouse.history where id = any (%s)

-- name: bench_rate
-- Ended jobs per second: from the first start to the last end.
select count(*) / extract(epoch from max(finished_at) - min(attempt_started_at)) from posthouse.history

-- name: bench_stretch_rate
-- Jobs per second over the first jobs that ended after a time, without the first tenth of them as warm-up.
-- A few jobs may all end in one transaction, at one time, so the duration counts as 1 us at least.
with ended as (
  select finished_at, row_number() over (order by finished_at) as nth
  from posthouse.history where finished_at > %(since)s order by finished_at limit %(jobs)s
)
select 0.9 * %(jobs)s / greatest(0.000001,
  extract(epoch from max(finished_at) - max(finished_at) filter (where nth <= 0.1 * %(jobs)s)))
from ended
