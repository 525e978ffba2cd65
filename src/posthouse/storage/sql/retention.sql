-- Retention and erasure.

-- name: retention_sizes
-- Size of each table with retention: estimated rows, bytes, partitions, the oldest partition.
select
  k.thing, k.relation, k.days, k.span, coalesce(sum(s.rows), 0)::bigint as rows,
  coalesce(sum(s.bytes), 0)::bigint as bytes, count(p.starts_at)::integer as partitions, min(p.starts_at) as oldest,
  min(p.ends_at) + make_interval(secs => 86400 * k.days) as next_drop_at
from (
  select t.*, posthouse.retention_days_of(%(days)s::jsonb, t) as days, posthouse.unpartitioned_tables(t) as loose
  from posthouse.effective_retention_rules() as t) as k
left join lateral (
  select q.partition, q.starts_at, q.ends_at from posthouse.partitions() as q where q.relation = k.relation
  union all
  select o.name, null, null from unnest(k.loose) as o (name)) as p on true
left join lateral posthouse.table_size(p.partition) as s on true
group by k.thing, k.relation, k.days, k.span, k.of_jobs
order by not k.of_jobs, k.thing, k.relation

-- name: pages_count
-- How many pages a table has.
select pg_relation_size(to_regclass('posthouse.' || quote_ident(%(name)s))) / current_setting('block_size')::integer

-- name: blobs_discarded
-- Storage keys of deleted artifacts.
select place from posthouse.discarded_blobs order by at limit %(limit)s

-- name: blobs_gone
-- Deletes storage keys from the list of deleted artifacts, after their content was deleted.
delete from posthouse.discarded_blobs where place = any (%(places)s)

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
