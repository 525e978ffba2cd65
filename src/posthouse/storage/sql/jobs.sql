-- Lists of jobs and single jobs, in every state.

-- fragment: few_ready
-- The ids of the ready jobs of a tenant by its lanes, and whether these are all of them.
with few as materialized (
  select coalesce(array_agg(f.id), '{}') as ids, count(*) <= %(few)s as all_of_them
  from (
    select r.id
    from (select distinct lane from posthouse.lanes
          where tenant_id = %(tenant)s::text and 'queued' = any (%(statuses)s::text[])) as l
    cross join lateral (
      select q.id from posthouse.ready as q where q.lane = l.lane order by q.position limit %(few)s + 1) as r
    limit %(few)s + 1) as f
)

-- fragment: listed_ready
-- The columns of a list for jobs in ready.
@listed
  status := 'queued'
  job_table := 'ready'
  attempt_started_at := null::timestamptz
  finished_at := null::timestamptz
  worker_id := null::uuid
  blockers := 0
@

-- fragment: one_page
-- The conditions and the order of a page of jobs that an index finds.
(%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and (%(statuses)s::text[] is null or status = any (%(statuses)s::text[]))
  and (%(correlation)s::text is null or correlation_id = %(correlation)s::text)
  and (%(subject)s::text is null or subject = %(subject)s::text)
  and @filters@
  and id >= %(lowest)s::uuid and id < %(below)s::uuid
order by id desc
offset %(offset)s
limit %(limit)s

-- fragment: filters
-- The conditions of all lists and counts on columns that every table of jobs has.
(%(kind)s::text is null or kind = %(kind)s::text)
  and (%(queue)s::text is null or queue = %(queue)s::text)
  and (%(source)s::text is null or source = %(source)s::text)
  and (%(created_after)s::timestamptz is null or queued_at >= %(created_after)s::timestamptz)
  and (%(created_before)s::timestamptz is null or queued_at < %(created_before)s::timestamptz)

-- name: job_show
-- One job with all its columns.
select
  id, tenant_id, kind, queue, status, job_table, priority, correlation_id, subject, scheduled_for, queued_at,
  started_at, attempt_started_at, finished_at, attempt_count, max_attempts, worker_id, progress_percent,
  current_step, blockers, last_error, payload, result, error, dedupe_key, order_key, source, source_ref,
  created_by, parent_id, depends_on, generation, crashes, snoozes, timeout_seconds, lease_expires_at,
  cancel_requested_at, erased_at, progress_message
from posthouse.jobs
where id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)

-- name: jobs_by_ids
-- These jobs, newest first.
select @listed@
from posthouse.jobs
where id = any (%(ids)s::uuid[])
order by id desc

-- name: jobs_by_part_of_id
-- Jobs whose id starts or ends with some digits, newest first. A prefix is a range of ids. For a suffix, a limited
-- number of the newest ids of each table is read by index: an index by suffix would slow down every insert into
-- history.
with found as (
  (select id from posthouse.jobs
   where id between %(lowest)s::uuid and %(highest)s::uuid
   order by id desc
   limit %(limit)s)
  union
  (select id from (
     (select id from posthouse.ready order by id desc limit %(searched)s)
     union all
     (select id from posthouse.waiting order by id desc limit %(searched)s)
     union all
     (select id from posthouse.running order by id desc limit %(searched)s)
     union all
     (select id from posthouse.history order by id desc limit %(searched)s)) as newest
   where right(id::text, length(%(suffix)s::text)) = %(suffix)s::text
   limit %(limit)s)
)
select id, kind, status from posthouse.jobs
where id = any (array(select id from found))
order by id desc
limit %(limit)s

-- name: jobs_list_all
-- Jobs of all tenants, newest first, among a limited number of jobs that are read in the order of their ids.
select * from (
  select
    @listed@
  from posthouse.jobs
  where id >= %(lowest)s::uuid and id < %(below)s::uuid
  order by id desc
  limit %(most)s) as read
where (%(statuses)s::text[] is null or status = any (%(statuses)s::text[]))
  and @filters@
order by id desc
offset %(offset)s
limit %(limit)s

-- name: jobs_list_by_tenant
-- Jobs of a tenant, newest first, among a limited number of jobs of each table and status, each read in order by its
-- index. The other conditions are checked on the jobs that were read. Reads the tables and not the view, whose plan
-- takes four times as long. Statuses, and tenants in waiting, are compared together with ids as well: otherwise the
-- planner may read the index of ids and discard the jobs of other tenants or statuses one by one. ready has no index by
-- tenant: the few jobs of a small tenant are found by its lanes; for a large tenant all of ready is read, of which its
-- jobs are a large part.
@few_ready@
select j.*
from (
  (select * from (
    select
      @listed_ready@
    from posthouse.ready
    where 'queued' = any (%(statuses)s::text[]) and (select all_of_them from few) and id = any ((select ids from few)::uuid[])
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    limit %(most)s) as read
  where @filters@
  order by id desc
  limit %(limit)s::bigint + %(offset)s::bigint)
  union all
  (select * from (
    select
      @listed_ready@
    from posthouse.ready
    where 'queued' = any (%(statuses)s::text[]) and not (select all_of_them from few)
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    limit %(most)s) as read
  where @filters@
  order by id desc
  limit %(limit)s::bigint + %(offset)s::bigint)
  union all
  (select * from (
    select
      @listed
        status := 'queued'
        job_table := 'waiting'
        attempt_started_at := null::timestamptz
        finished_at := null::timestamptz
        worker_id := null::uuid
      @
    from posthouse.waiting
    where 'queued' = any (%(statuses)s::text[]) and tenant_id = %(tenant)s::text
      and (tenant_id, id) >= (%(tenant)s::text, %(lowest)s::uuid) and (tenant_id, id) < (%(tenant)s::text, %(below)s::uuid)
    order by id desc
    limit %(most)s) as read
  where @filters@
  order by id desc
  limit %(limit)s::bigint + %(offset)s::bigint)
  union all
  (select * from (
    select
      @listed
        status := 'running'
        job_table := 'running'
        finished_at := null::timestamptz
        blockers := 0
      @
    from posthouse.running
    where 'running' = any (%(statuses)s::text[])
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    limit %(most)s) as read
  where @filters@
  order by id desc
  limit %(limit)s::bigint + %(offset)s::bigint)
  union all
  select h.* from unnest(%(statuses)s::text[]) as s (wanted)
  cross join lateral (select * from (
    select
      @listed
        job_table := 'history'
        blockers := 0
      @
    from posthouse.history
    where tenant_id = %(tenant)s::text
      and (status, id) < (s.wanted, %(below)s::uuid) and (status, id) >= (s.wanted, %(lowest)s::uuid)
    order by status desc, id desc
    limit %(most)s) as read
  where @filters@
  order by status desc, id desc
  limit %(limit)s::bigint + %(offset)s::bigint) as h) as j
order by j.id desc
offset %(offset)s
limit %(limit)s

-- name: jobs_list_by_correlation
-- Jobs with a correlation, newest first.
select @listed@
from posthouse.jobs
where correlation_id = %(correlation)s::text
  and @one_page@

-- name: jobs_list_by_subject
-- Jobs with a subject, newest first.
select @listed@
from posthouse.jobs
where subject = %(subject)s::text
  and @one_page@

-- name: jobs_page_end_all
-- The last job that was read for a page of all jobs, if the search stopped early.
select id from posthouse.jobs
where id >= %(lowest)s::uuid and id < %(below)s::uuid
order by id desc
offset %(most)s::bigint - 1
limit 1

-- name: jobs_page_end_by_tenant
-- The last job that was read for a page of a tenant's jobs, if the search stopped early: the highest of the last ids
-- that were read from each table.
@few_ready@
select h.id
from (
  (select id from posthouse.ready
    where 'queued' = any (%(statuses)s::text[]) and not (select all_of_them from few)
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    offset %(most)s::bigint - 1
    limit 1)
  union all
  (select id from posthouse.waiting
    where 'queued' = any (%(statuses)s::text[]) and tenant_id = %(tenant)s::text
      and (tenant_id, id) >= (%(tenant)s::text, %(lowest)s::uuid) and (tenant_id, id) < (%(tenant)s::text, %(below)s::uuid)
    order by id desc
    offset %(most)s::bigint - 1
    limit 1)
  union all
  (select id from posthouse.running
    where 'running' = any (%(statuses)s::text[])
      and tenant_id = %(tenant)s::text and id >= %(lowest)s::uuid and id < %(below)s::uuid
    order by id desc
    offset %(most)s::bigint - 1
    limit 1)
  union all
  select h.* from unnest(%(statuses)s::text[]) as s (wanted)
  cross join lateral (select id from posthouse.history
    where tenant_id = %(tenant)s::text
      and (status, id) < (s.wanted, %(below)s::uuid) and (status, id) >= (s.wanted, %(lowest)s::uuid)
    order by status desc, id desc
    offset %(most)s::bigint - 1
    limit 1) as h) as h
order by h.id desc
limit 1

-- name: jobs_active_ids
-- The ids of queued and running jobs that match, up to a number, oldest first.
select id
from posthouse.jobs
where job_table <> 'history' and status = any (%(statuses)s::text[])
  and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and @filters@
  and (%(correlation)s::text is null or correlation_id = %(correlation)s::text)
  and (%(subject)s::text is null or subject = %(subject)s::text)
order by id
limit %(most)s

-- name: jobs_active_count
-- How many queued and running jobs match, counted up to a number.
select count(*) from (
  select
  from posthouse.jobs
  where job_table <> 'history' and status = any (%(statuses)s::text[])
    and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
    and @filters@
    and (%(correlation)s::text is null or correlation_id = %(correlation)s::text)
    and (%(subject)s::text is null or subject = %(subject)s::text)
  limit %(most)s) as found

-- name: jobs_summary
-- How many jobs have each status, each counted up to a number, and since when the oldest ready job could have started.
-- Ready jobs are found by their lanes: a tenant's own lanes are few, no matter how long those of others are.
with mine as materialized (
  select distinct lane from posthouse.lanes where %(tenant)s::text is null or tenant_id = %(tenant)s::text
)
select
  (select count(*) from (
    select from mine join posthouse.ready as r on r.lane = mine.lane limit %(most)s) as c) as ready,
  (select count(*) from (select from posthouse.waiting as w
    where %(tenant)s::text is null or w.tenant_id = %(tenant)s::text limit %(most)s) as c) as waiting,
  (select count(*) from (select from posthouse.running as r
    where %(tenant)s::text is null or r.tenant_id = %(tenant)s::text limit %(most)s) as c) as running,
  (select count(*) from (select from posthouse.history as h where h.status = 'succeeded'
    and (%(tenant)s::text is null or h.tenant_id = %(tenant)s::text) limit %(most)s) as c) as succeeded,
  (select count(*) from (select from posthouse.history as h where h.status = 'failed' and h.status <> 'succeeded'
    and (%(tenant)s::text is null or h.tenant_id = %(tenant)s::text) limit %(most)s) as c) as failed,
  (select count(*) from (select from posthouse.history as h where h.status = 'canceled' and h.status <> 'succeeded'
    and (%(tenant)s::text is null or h.tenant_id = %(tenant)s::text) limit %(most)s) as c) as canceled,
  (select count(*) from (select from posthouse.history as h where h.status = 'dead_letter' and h.status <> 'succeeded'
    and (%(tenant)s::text is null or h.tenant_id = %(tenant)s::text) limit %(most)s) as c) as dead_letter,
  extract(epoch from posthouse.now() - (
    select min(h.since) from mine cross join lateral (
      select greatest(r.queued_at, r.scheduled_for) as since
      from posthouse.ready as r where r.lane = mine.lane order by r.position limit 1) as h)
  )::double precision as oldest_queued_seconds

-- name: jobs_running
-- The jobs that have been running longest, with the columns of a list of jobs.
select @listed@
from posthouse.jobs
where id = any (array(select id from posthouse.running order by attempt_started_at, id limit %(limit)s))
  and status = 'running'
order by attempt_started_at, id

-- name: job_result
-- The status, result and error of a job.
select j.status, j.result, j.error
from posthouse.jobs as j
where j.id = %s
order by j.finished_at desc nulls first
limit 1

-- name: jobs_foreign_id
-- One of these jobs that does not belong to this tenant.
select u.id from unnest(%(ids)s::uuid[]) as u (id)
where not exists (select from posthouse.jobs as j where j.id = u.id and j.tenant_id = %(tenant)s)
limit 1
