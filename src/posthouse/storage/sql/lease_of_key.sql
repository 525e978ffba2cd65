-- The lease that a worker of this key has on a job, for workers that keep no tokens.
select r.token, r.worker_id from posthouse.running as r
join posthouse.workers as w on w.id = r.worker_id and w.key = %(key)s
where r.id = %(id)s
