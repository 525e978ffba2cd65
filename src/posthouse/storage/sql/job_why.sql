-- Why a job has not started yet.

-- name: job_location
-- The state of a job, to explain why it has not started.
select
  j.id, j.kind, j.queue, j.tenant_id, j.status, j.job_table, j.attempt_count, j.max_attempts,
  j.priority, j.requires, j.prefers, j.last_error, j.finished_at, j.worker_id,
  w.name as worker_name, j.attempt_started_at,
  j.lease_expires_at, j.cancel_requested_at, q.due_at, r.lane, r.position,
  (select l.rank from posthouse.lanes as l where l.lane = r.lane limit 1) as rank,
  p.paused_at, p.paused_by, exists (select from posthouse.definitions as d where d.key = j.kind) as defined,
  (select s.since from greatest(
     posthouse.first_mismatch(r.id, r.generation),
     posthouse.last_served(r.queue, r.kind, r.tenant_id, r.requires)) as s (since)
   where r.requires <> coalesce(posthouse.without_code_exclusions(r.requires), '{}') and isfinite(s.since)) as unserved_since,
  posthouse.now() as now
from posthouse.jobs as j
left join posthouse.ready as r on r.id = j.id
left join posthouse.waiting as q on q.id = j.id
left join posthouse.visible_workers() as w on w.id = j.worker_id
left join posthouse.queues as p on p.name = j.queue and p.paused_at is not null
where j.id = %(id)s and (%(tenant)s::text is null or j.tenant_id = %(tenant)s::text)

-- name: job_dependencies
-- The jobs that a waiting job waits for. The status is null if the job was dropped with its partition.
select distinct b.depends_on as id, j.kind, j.status
from posthouse.job_dependencies as b
left join posthouse.jobs as j on j.id = b.depends_on
where b.job_id = %(id)s
order by b.depends_on
limit 100

-- name: job_blocking_limits
-- The limits that keep a ready job from starting now: the use of its slots, and when a rate lets another job start.
select
  l.name, l.per, slot.slot, coalesce(s.in_use, 0) as in_use, l.max_running, l.rate, l.burst, now.tokens, cost.cost,
  coalesce(s.in_use, 0) >= l.max_running as full,
  case when now.tokens < cost.cost then (cost.cost - now.tokens) / l.rate end as seconds
from posthouse.ready as r
cross join posthouse.limits as l
cross join lateral posthouse.slot_of(l, r.queue, r.kind, r.tenant_id, r.limit_key) as slot (slot)
cross join lateral posthouse.start_cost(l, r.kind) as cost (cost)
left join posthouse.limit_slots as s on s.slot = slot.slot
cross join lateral (
  select case when s.slot is null then l.burst else posthouse.refilled(l, s, posthouse.now()) end) as now (tokens)
where r.id = %(id)s and slot.slot is not null
  and (coalesce(s.in_use, 0) >= l.max_running or now.tokens < cost.cost)
order by l.name

-- name: job_queue_position
-- How many jobs of its queue and kind are ahead of this job, counted up to a limit, and how many jobs end per second.
select
  (select count(*)
   from (
     select
     from (select distinct l.lane, l.priority, l.rank from posthouse.lanes as l
           where l.queue = %(queue)s and l.kind = %(kind)s and (l.priority, l.rank) <= (%(priority)s, %(rank)s)) as l
     join posthouse.ready as r on r.lane = l.lane
     where (l.priority, l.rank) < (%(priority)s, %(rank)s) or r.position < %(position)s
     limit %(limit)s) as r)::integer as ahead,
  posthouse.recent_throughput(%(queue)s, %(kind)s) as pace

-- name: job_candidate_workers
-- Online workers that serve this queue or have a handler for this kind, the capabilities that they lack, and how many
-- jobs they run.
select
  w.id, w.name, w.concurrency,
  (select count(*) from posthouse.running as r where r.worker_id = w.id)::integer as running,
  %(queue)s = any (w.queues) as serves_queue, %(kind)s = any (w.kinds) as knows_kind,
  array(select c from unnest(%(requires)s::text[]) as c where c not like '!%%' and c <> all (w.capabilities)) as lacks,
  '!' || w.code = any (%(requires)s::text[]) as outdated,
  %(prefers)s::text[] <@ w.capabilities as preferred,
  w.disabled_at, w.drain_requested_at
from posthouse.visible_workers() as w
where posthouse.is_online(w, %(offline_after)s)
  and (%(queue)s = any (w.queues) or %(kind)s = any (w.kinds))
order by w.name, w.id

-- name: job_reserved_until
-- The time until which a job is reserved for preferred workers; null if it is not.
select head.scheduled_for + make_interval(secs => %(preference_wait)s)
from posthouse.ready as r
cross join lateral (
  select h.scheduled_for from posthouse.ready as h where h.lane = r.lane order by h.position limit 1) as head
where r.id = %(id)s and r.prefers is not null
  and posthouse.is_reserved_for_preferred(
    r.lane, r.queue, r.kind, r.prefers, posthouse.now(), make_interval(secs => %(preference_wait)s))

-- name: limit_slot_jobs
-- The running jobs in a slot of a limit, oldest start first.
select r.id, r.kind, w.name as worker, r.attempt_started_at as since
from posthouse.running as r
left join posthouse.visible_workers() as w on w.id = r.worker_id
where %(slot)s::text = any (string_to_array(r.slots, E'\x1e'))
order by r.attempt_started_at, r.id
limit %(limit)s
