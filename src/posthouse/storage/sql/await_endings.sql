-- Says that somebody waits for results, in this session.
select pg_advisory_lock_shared(7703, 0)
