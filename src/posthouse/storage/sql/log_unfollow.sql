-- Cancels the notifications about the log of a job.
select pg_advisory_unlock_shared(7706, hashtext((%(id)s)::uuid::text))
