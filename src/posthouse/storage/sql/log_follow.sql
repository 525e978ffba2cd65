-- Says that somebody follows the lines of this job, in this session.
select pg_advisory_lock_shared(7706, hashtext((%(id)s)::uuid::text))
