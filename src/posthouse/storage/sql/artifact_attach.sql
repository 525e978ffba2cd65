-- Attaches a file to a queued job; returns whether the job exists and has not started.
select posthouse.attach(%s::jsonb)
