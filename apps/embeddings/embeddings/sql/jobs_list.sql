-- Jobs, newest first.
select id, rule_id, status, priority, embedding_model, text_hash, attempts, max_attempts, created_at, started_at,
  completed_at, embedding_dimensions, reused, processing_time_ms, error_message, worker_id, worker_version
from embeddings.embedding_jobs
where %(status)s::text is null or status = %(status)s
order by created_at desc, id desc
limit %(limit)s
