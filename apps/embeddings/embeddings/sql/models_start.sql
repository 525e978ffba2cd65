-- Start a change of the model and enqueue its job; no row if another change is in progress.
update embeddings.models set next = %(next)s, is_paused = false, texts_per_minute = %(texts_per_minute)s,
  started_at = posthouse.now(), job_id = embeddings.request_reembedding(%(actor)s)
where next is null or next = %(next)s
returning next
