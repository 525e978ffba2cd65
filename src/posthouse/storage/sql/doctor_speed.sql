-- Server settings that decide how fast the queue is, as this session sees them.
select current_setting('jit')::boolean as jit,
       (select s.setting::bigint * 1048576 from pg_settings as s where s.name = 'max_wal_size') as max_wal_bytes,
       (select s.setting::bigint * current_setting('block_size')::bigint from pg_settings as s
        where s.name = 'shared_buffers') as buffer_bytes,
       current_setting('random_page_cost')::double precision as random_page_cost,
       current_database() as database
