-- Overall counts: queued jobs, running jobs, workers.
select
  (select count(*) from posthouse.ready) + (select count(*) from posthouse.waiting) as queued,
  (select count(*) from posthouse.running) as running,
  (select count(*) from posthouse.seen_workers() as w where posthouse.is_there(w, %(offline_after)s)) as workers
