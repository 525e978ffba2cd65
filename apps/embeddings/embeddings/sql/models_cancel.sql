-- End a change without a switch; its job ends after the current batch.
update embeddings.models set next = null, is_paused = false, texts_per_minute = null, started_at = null
where next is not null
returning active
