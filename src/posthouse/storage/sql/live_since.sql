-- Ids of jobs that may have changed since a moment: what runs, what was queued, what ended, what goes into another
-- attempt. One more than so many says that there are too many.
select id from (
  (select id from posthouse.running limit %(most)s + 1)
  union
  (select id from posthouse.ready where id >= %(low)s limit %(most)s + 1)
  union
  (select id from posthouse.waiting where id >= %(low)s limit %(most)s + 1)
  union
  (select id from posthouse.history where finished_at > %(since)s limit %(most)s + 1)
  union
  (select job_id from posthouse.past_attempts where finished_at > %(since)s limit %(most)s + 1)) as changed
limit %(most)s + 1
