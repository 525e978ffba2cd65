-- The jobs among these that run under one of these tokens, claimed by a worker of another key.
select r.id from posthouse.running as r
join unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) as report (id, token) on r.id = report.id and r.token = report.token
join posthouse.workers as w on w.id = r.worker_id
where w.key is distinct from %(key)s
