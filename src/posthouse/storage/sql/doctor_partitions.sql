-- Missing partitions of the coming days.
select distinct k.relation as table, date_trunc(k.span, d)::date as day
from posthouse.kept_tables() as k
cross join generate_series(
  (posthouse.now() at time zone 'UTC')::date::timestamp,
  (posthouse.now() at time zone 'UTC')::date::timestamp + make_interval(days => %(days)s::integer),
  interval '1 day') as d
where k.relation in (select posthouse.partitioned_tables())
  and not exists (
    select from posthouse.partitions() as p
    where p.relation = k.relation and p.partition = posthouse.partition_name(k.relation, d::date, k.span))
order by day, k.relation
