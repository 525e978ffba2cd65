-- The Postgres version, and whether this user may see other sessions.
select current_setting('server_version_num')::integer as number, current_setting('server_version') as version,
       pg_has_role('pg_read_all_stats', 'usage') as sees_all
