-- Requests wakeups for these queues in this session.
select pg_advisory_lock_shared(7702, hashtext(queue)) from unnest(%s::text[]) as queue
