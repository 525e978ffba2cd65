-- Lock a demo for this session; false if another session has the lock.
select pg_try_advisory_lock(hashtextextended('posthouse.demo ' || %(name)s, 0))
