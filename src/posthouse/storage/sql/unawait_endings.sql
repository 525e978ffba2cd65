-- Takes back that somebody waits for results, in this session.
select pg_advisory_unlock_shared(7703, 0)
