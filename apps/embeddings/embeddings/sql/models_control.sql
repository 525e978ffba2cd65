-- Pause, resume or set the rate of a change; resuming enqueues its job, unless it is active. No row without a change.
update embeddings.models set is_paused = coalesce(%(is_paused)s, is_paused),
  texts_per_minute = case when %(has_rate)s then %(texts_per_minute)s else texts_per_minute end,
  job_id = case when %(is_paused)s then job_id else embeddings.request_reembedding(%(actor)s) end
where next is not null
returning next
