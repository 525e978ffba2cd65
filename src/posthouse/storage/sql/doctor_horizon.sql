-- Sessions, prepared transactions, slots and standbys that keep dead rows from being removed, worst first.
select holder, pid, name, "user", application, state, query, since, age_seconds, age_transactions
from (
  select 'session' as holder, a.pid, null as name, a.usename::text as "user",
         a.application_name as application, a.state, left(regexp_replace(a.query, '\s+', ' ', 'g'), 160) as query,
         a.xact_start as since, extract(epoch from clock_timestamp() - a.xact_start)::double precision as age_seconds,
         greatest(age(a.backend_xmin), age(a.backend_xid)) as age_transactions
  from pg_stat_activity as a
  where a.datname = current_database() and a.pid <> pg_backend_pid()
    and a.backend_type <> 'autovacuum worker'  -- vacuum does not hold back the others
    and (a.backend_xmin is not null or a.backend_xid is not null)
  union all
  select 'prepared transaction', null, p.gid, p.owner::text, null, 'prepared', null,
         p.prepared, extract(epoch from clock_timestamp() - p.prepared)::double precision, age(p.transaction)
  from pg_prepared_xacts as p
  where p.database = current_database()
  union all
  select 'replication slot', s.active_pid, s.slot_name::text, null, null,
         case when s.active then 'active' else 'inactive' end, null, null, null, age(s.xmin)
  from pg_replication_slots as s
  where s.xmin is not null
  union all
  select 'standby feedback', r.pid, null, r.usename::text, r.application_name, r.state, null, null, null,
         age(r.backend_xmin)
  from pg_stat_replication as r
  where r.backend_xmin is not null
) as holders
order by age_seconds desc nulls last, age_transactions desc
