-- Connections in use, and the maximum for ordinary users.
select
  (select count(*) from pg_stat_activity where backend_type = 'client backend')::integer as used,
  current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true)::integer, 0) as allowed
