-- What this transaction has read of the search index: scans of the whole table, scans of the index, and rows.
select t.seq_scan, i.idx_scan, t.seq_tup_read + coalesce(t.idx_tup_fetch, 0)
from pg_stat_xact_user_tables as t
cross join lateral (select pg_stat_get_xact_numscans('vision.search_by_lexemes'::regclass)) as i (idx_scan)
where t.relid = 'vision.search_materialized'::regclass
