-- Requests notifications about finished jobs for this session.
select pg_advisory_lock_shared(7703, 0)
