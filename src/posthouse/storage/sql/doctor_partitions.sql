-- Partitions that should stand ready for the coming days and do not.
select t.name as table, d::date as day
from unnest(array['history', 'past_attempts']) as t (name)
cross join generate_series(
  (posthouse.now() at time zone 'UTC')::date,
  (posthouse.now() at time zone 'UTC')::date + %(days)s::integer, interval '1 day') as d
where not exists (
  select from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
  where i.inhparent = ('posthouse.' || t.name)::regclass
    and c.relname = posthouse.partition_name(t.name, d::date))
order by d, t.name
