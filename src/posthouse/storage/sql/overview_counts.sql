-- The least that says whether all is well: what is queued, what runs, who works.
select
  (select count(*) from posthouse.ready) + (select count(*) from posthouse.waiting) as queued,
  (select count(*) from posthouse.running) as running,
  (select count(*) from posthouse.seen_workers() as w where posthouse.is_there(w, %(offline_after)s)) as workers
