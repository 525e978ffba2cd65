-- Cancels a job of ours; says what it is then, or what it is already.
select posthouse.cancel(id, p_actor => %(actor)s) as status from embeddings.embedding_jobs where id = %(id)s
