-- Writes of running jobs: log lines, steps, artifacts.

-- name: log_write
-- Stores log lines of running jobs.
select posthouse.write_log(%s::uuid[], %s::uuid[], %s::float8[], %s::text[], %s::text[], %s::text[])

-- name: step_keep
-- Stores the result of a finished step; returns the outcome.
select posthouse.save_step(
  %s, %s, make_interval(secs => %s), %s, %s::jsonb, %s::real, p_unless_canceled => %s)

-- name: artifact_attach
-- Attaches a file to a queued job; returns whether the job exists and has not started.
select posthouse.attach(%s::jsonb)
