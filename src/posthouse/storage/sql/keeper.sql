-- The statements of the keeper: what is due, promotion, retention and erasure.

-- name: keeper_urgent_work
-- Which urgent steps of the keeper have work to do. swept: the cursor that recheck_dependencies returned.
select
  t.at as now, w.workers, w.changed as workers_changed,
  exists (select from posthouse.running) as has_leases,
  (select extract(epoch from min(j.due_at) - t.at)::double precision
   from posthouse.waiting as j where j.blockers = 0) as due_in,
  exists (select from posthouse.job_dependencies as b where b.xid >= (%(swept)s::xid8[])[1]) as has_edges,
  exists (select from posthouse.pending_events) as has_events,
  case
    when exists (select from posthouse.triggers as s where s.type = 'schedule' and s.enabled and s.next_at is null) then 0
    else (select extract(epoch from min(s.next_at) - t.at)::double precision
          from posthouse.triggers as s where s.type = 'schedule' and s.enabled)
  end as schedule_in
from (select posthouse.now() as at) as t
cross join lateral (
  select count(*)::integer as workers, coalesce(bool_or(
    v.lost_at is not null or v.missing_since is not null
    or coalesce(v.heartbeat_at, v.started_at)
      < t.at - coalesce(make_interval(secs => %(silence)s::double precision), v.offline_after)
    -- Its liveness lock is free. CASE fixes the order; the lock is released at once, because other keepers test it too.
    or case when v.watched and pg_try_advisory_lock(7701, v.number)
            then pg_advisory_unlock(7701, v.number) else false end), false) as changed
  from posthouse.workers as v where v.stopped_at is null) as w

-- name: keeper_background_work
-- Which of the other steps of the keeper have work to do.
select
  exists (select from posthouse.failure_deltas) as has_failures,
  exists (
    select from posthouse.bulk_changes as b
    where (b.state in ('gathering', 'running') and b.starts_at <= t.at)
      or (b.ended_at > t.at - interval '1 day' and exists (
        select from posthouse.bulk_change_jobs as j where j.bulk_id = b.id and j.state in ('retried', 'failing')))
  ) as has_bulk_changes,
  exists (select from posthouse.erasures as e where e.ended_at is null) as has_erasures,
  coalesce((select max(m.minute) + interval '1 minute' from posthouse.sampled_minutes as m)
           < posthouse.minute_of(t.at - interval '2 seconds'), true) as has_minute,
  exists (select from posthouse.alerts as a where a.state = 'new')
    or exists (select from posthouse.alert_cooldowns as g where g.suppressed_count > 0 and g.cooldown_until <= t.at)
    or exists (select from posthouse.alert_deliveries as d where d.state = 'queued') as has_alerts,
  (select max(c.id) from posthouse.worker_changes as c) as worker_change
from (select posthouse.now() as at) as t

-- name: promote
-- Rechecks edges that may have raced the end of their dependency (first: see recheck_dependencies), promotes due jobs,
-- and returns the seconds until the next one is due.
select posthouse.recheck_dependencies(%s::xid8[])::text, posthouse.promote(%s), posthouse.next_due()

-- name: delete_stale_rows
-- Deletes workers, dedupe keys, responses and progress that are no longer needed; returns how many rows.
select posthouse.delete_stale_rows(posthouse.now() - make_interval(secs => %(days)s * 86400))

-- name: retention_sizes
-- Size of each table with retention: estimated rows, bytes, partitions, the oldest partition.
select
  k.category, k.relation, k.days, k.partition_interval, coalesce(sum(s.rows), 0)::bigint as rows,
  coalesce(sum(s.bytes), 0)::bigint as bytes, count(p.starts_at)::integer as partitions, min(p.starts_at) as oldest,
  min(p.ends_at) + make_interval(secs => 86400 * k.days) as next_deletion_at
from (
  select t.*, posthouse.retention_days_of(%(days)s::jsonb, t) as days, posthouse.unpartitioned_tables(t) as loose
  from posthouse.effective_retention_rules() as t) as k
left join lateral (
  select q.partition, q.starts_at, q.ends_at from posthouse.partitions() as q where q.relation = k.relation
  union all
  select o.name, null, null from unnest(k.loose) as o (name)) as p on true
left join lateral posthouse.table_size(p.partition) as s on true
group by k.category, k.relation, k.days, k.partition_interval, k.follows_jobs
order by not k.follows_jobs, k.category, k.relation

-- name: table_page_count
-- How many pages a table has.
select pg_relation_size(to_regclass('posthouse.' || quote_ident(%(name)s))) / current_setting('block_size')::integer

-- name: blobs_to_delete
-- Storage keys of deleted artifacts.
select blob_key from posthouse.discarded_blobs order by at limit %(limit)s

-- name: blobs_deleted
-- Deletes storage keys from the list of deleted artifacts, after their content was deleted.
delete from posthouse.discarded_blobs where blob_key = any (%(blob_keys)s)

-- name: delete_old_artifacts
-- Deletes artifacts of jobs that ended more than a number of days ago; returns how many.
select posthouse.delete_old_artifacts(posthouse.now() - make_interval(secs => %(days)s * 86400))

-- name: erase
-- Erases the jobs and events of a subject.
select e.id, e.tenant_id, e.subject, e.state, e.jobs, e.events, e.artifacts, e.requested_at, e.requested_by, e.ended_at
from jsonb_to_record(%s::jsonb) as a (subject text, tenant text, actor text)
cross join lateral posthouse.erase(a.subject, a.tenant, a.actor) as e

-- name: erasures_list
-- Erasures, newest first; optionally the one with this id.
select id, tenant_id, subject, state, jobs, events, artifacts, requested_at, requested_by, ended_at
from posthouse.erasures
where (%(id)s::uuid is null or id = %(id)s::uuid)
  and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and (%(before)s::uuid is null or id < %(before)s::uuid)
order by id desc
limit %(limit)s
