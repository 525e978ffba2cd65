-- Requests notifications about the log of a job for this session.
select pg_advisory_lock_shared(7706, hashtext((%(id)s)::uuid::text))
