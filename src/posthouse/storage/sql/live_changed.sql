-- Jobs by id, of each tenant the newest so many; `of_tenant` says how many there are. What ended long ago is left out:
-- it has not changed, and looking for it would mean looking into every partition.
select * from (
  select
    id, tenant_id, kind, queue, status, place, priority, correlation_id, subject, source, scheduled_for, queued_at,
    started_at, attempt_started_at, finished_at, attempt_count, max_attempts, worker_id, progress_percent,
    current_step, blockers, last_error,
    count(*) over (partition by tenant_id) as of_tenant,
    row_number() over (partition by tenant_id order by id desc) as nth
  from posthouse.jobs
  where id = any (%(ids)s) and (finished_at is null or finished_at > coalesce(%(since)s::timestamptz, '-infinity'))
    and (%(tenants)s::text[] is null or tenant_id = any (%(tenants)s::text[]))) as found
where nth <= %(most)s
