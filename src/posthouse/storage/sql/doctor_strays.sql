-- Rows that found no partition of their own, counted up to a limit.
select
  (select count(*) from (select from posthouse.history_default limit %(limit)s) as h) as history,
  (select count(*) from (select from posthouse.past_attempts_default limit %(limit)s) as a) as past_attempts
