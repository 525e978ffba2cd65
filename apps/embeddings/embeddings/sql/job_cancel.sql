-- Cancel an embedding job; return its status.
select posthouse.cancel(id, p_actor => %(actor)s) as status from embeddings.embedding_jobs where id = %(id)s
