-- When a job's second attempt started.
select attempt_started_at from posthouse.history where id = %s and attempt_count > 1
