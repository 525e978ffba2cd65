-- Workers: lists, counts, and the keeper's check for lost workers.

-- name: workers_list
-- Workers with their running jobs: online workers, and workers that went offline within a time.
select
  w.id, w.name, w.hostname, w.pid, w.version, w.queues, w.kinds, w.concurrency, w.capability_details, w.capabilities,
  w.metadata, n.running,
  posthouse.worker_status(w, n.running, %(offline_after)s) as status,
  w.started_at, w.heartbeat_at, w.stopped_at, w.disabled_at, w.drain_requested_at,
  extract(epoch from posthouse.now() - w.heartbeat_at)::double precision as heartbeat_seconds,
  not alive.alive and (w.stopped_at is null or w.missing_since is not null) as lost,
  array(select jsonb_build_object('id', r.id, 'kind', r.kind, 'since', r.attempt_started_at)
        from posthouse.running as r where r.worker_id = w.id
        order by r.attempt_started_at, r.id limit %(jobs)s) as jobs
from posthouse.workers as w
cross join lateral (select posthouse.is_online(w, %(offline_after)s)) as alive (alive)
cross join lateral (
  select count(*)::integer from posthouse.running as r where r.worker_id = w.id) as n (running)
where alive.alive
  or %(offline_within)s::double precision is null
  or greatest(w.stopped_at, w.heartbeat_at, w.started_at)
     > posthouse.now() - make_interval(secs => %(offline_within)s::double precision)
order by not alive.alive, w.name, w.started_at desc

-- name: workers_by_name
-- Workers by id or name: the online ones, otherwise the one that started last.
with meant as (
  select w.id, w.name, w.started_at,
         posthouse.is_online(w, %(offline_after)s) as alive
  from posthouse.workers as w where %(worker)s in (w.id::text, w.name)
)
select m.id, m.name, m.alive from meant as m
where m.alive or m.id = (select o.id from meant as o where not exists (select from meant as a where a.alive)
                         order by o.started_at desc limit 1)
order by m.name, m.id

-- name: visible_workers
-- Online workers, limited to what the caller may see; running counts the jobs that the caller can see.
select
  w.id, w.version, w.queues, w.capabilities, w.concurrency, w.started_at,
  (select count(*) from posthouse.running as r where r.worker_id = w.id)::integer as running,
  case when w.disabled_at is not null then 'disabled' when w.drain_requested_at is not null then 'draining'
    else 'online' end as status
from posthouse.visible_workers() as w
where posthouse.is_online(w, %(offline_after)s)
order by w.started_at, w.id

-- name: workers_online
-- The scope of each worker that is online and not disabled.
select only_tenant, queues from posthouse.workers as w
where posthouse.is_online(w, %(offline_after)s) and w.disabled_at is null

-- name: worker_counts
-- How many workers have each status; offline workers only if they left within the last hour.
select posthouse.worker_status(w, coalesce(r.running, 0), %(offline_after)s) as status, count(*)::integer as workers
from posthouse.workers as w
left join (select worker_id, count(*) as running from posthouse.running group by 1) as r on r.worker_id = w.id
where posthouse.is_online(w, %(offline_after)s)
  or greatest(w.stopped_at, w.heartbeat_at, w.started_at) > posthouse.now() - interval '1 hour'
group by 1

-- name: worker_names
-- The names of workers.
select id, name from posthouse.workers where id = any (%s)

-- name: worker_changes_list
-- Starts, stops, losses and returns of workers, newest first.
select id, at, worker_id, name, change from posthouse.worker_changes
where (%(worker)s::uuid is null or worker_id = %(worker)s::uuid)
  and (%(after)s::bigint is null or id < %(after)s::bigint)
order by id desc
limit %(limit)s

-- name: check_workers
-- The workers lost and returned since the last call. Without p_judge missing heartbeats are ignored.
select
  array(select posthouse.mark_lost_workers(
    make_interval(secs => %(grace)s), p_silence => make_interval(secs => %(silence)s::double precision),
    p_judge => %(judge)s, p_remote_grace => make_interval(secs => %(remote_grace)s))),
  array(select posthouse.mark_returned_workers())
