-- Dead rows in the busiest tables, and whether autovacuum is on.
select
  c.relname::text as table, s.n_live_tup as live, s.n_dead_tup as dead,
  greatest(s.last_autovacuum, s.last_vacuum) as last_vacuum, pg_total_relation_size(c.oid) as bytes,
  current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean
    and coalesce((select o.option_value::boolean from pg_options_to_table(c.reloptions) as o
                  where o.option_name = 'autovacuum_enabled'), true) as autovacuum
from pg_class as c
join pg_stat_all_tables as s on s.relid = c.oid
where s.schemaname = 'posthouse'
  and s.relname in ('ready', 'waiting', 'running', 'dedupes', 'blocks', 'order_tails', 'workers')
order by s.n_dead_tup desc
