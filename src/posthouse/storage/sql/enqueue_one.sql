-- Enqueues one plain job.
select posthouse.enqueue_one(
  %(id)s, %(kind)s, %(payload)s::jsonb, %(tenant)s, %(queue)s, %(priority)s::integer, %(max_attempts)s::integer,
  %(timeout)s::real, %(retry)s::jsonb, %(correlation_id)s, %(subject)s, %(source)s, %(source_ref)s,
  %(created_by)s, %(parent_id)s)
