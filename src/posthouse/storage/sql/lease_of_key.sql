-- The lease of a job held by a worker of this key, for workers that store no tokens.
select r.token, r.worker_id from posthouse.running as r
join posthouse.workers as w on w.id = r.worker_id and w.key = %(key)s
where r.id = %(id)s
