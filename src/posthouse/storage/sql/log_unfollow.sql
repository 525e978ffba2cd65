-- Takes that back.
select pg_advisory_unlock_shared(7706, hashtext((%(id)s)::uuid::text))
