-- Keeps the result of a finished step; says what became of it.
select posthouse.keep_step(
  %s, %s, make_interval(secs => %s), %s, %s::jsonb, %s::real, p_unless_canceled => %s)
