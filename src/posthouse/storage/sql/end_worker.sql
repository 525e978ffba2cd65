-- Ends a worker that its supervisor killed.
select id, event from posthouse.end_worker(%(worker)s, %(blockers)s::uuid[], %(error)s::jsonb, %(crash_limit)s)
