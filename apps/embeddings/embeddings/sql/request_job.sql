-- Enqueues the embedding of a rule that the caller may see.
select id from embeddings.request_by_id(%(rule_id)s, %(priority)s, %(embedding_model)s, %(actor)s) as id
where id is not null
