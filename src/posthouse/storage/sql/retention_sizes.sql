-- Size of each table with retention: estimated rows, bytes, partitions, the oldest partition.
select
  k.thing, k.relation, k.days, k.span, coalesce(sum(s.rows), 0)::bigint as rows,
  coalesce(sum(s.bytes), 0)::bigint as bytes, count(p.starts_at)::integer as partitions, min(p.starts_at) as oldest,
  min(p.ends_at) + make_interval(secs => 86400 * k.days) as next_drop_at
from (
  select t.*, posthouse.days_kept(%(days)s::jsonb, t) as days, posthouse.loose_tables(t) as loose
  from posthouse.kept_tables() as t) as k
left join lateral (
  select q.partition, q.starts_at, q.ends_at from posthouse.partitions() as q where q.relation = k.relation
  union all
  select o.name, null, null from unnest(k.loose) as o (name)) as p on true
left join lateral posthouse.size_of(p.partition) as s on true
group by k.thing, k.relation, k.days, k.span, k.of_jobs
order by not k.of_jobs, k.thing, k.relation
