-- Cancels the notifications about finished jobs of this session.
select pg_advisory_unlock_shared(7703, 0)
