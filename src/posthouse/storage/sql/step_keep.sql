-- Stores the result of a finished step; returns the outcome.
select posthouse.keep_step(
  %s, %s, make_interval(secs => %s), %s, %s::jsonb, %s::real, p_unless_canceled => %s)
