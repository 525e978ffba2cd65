-- Enqueue the embedding of a rule visible to the caller.
select id from embeddings.request_by_id(%(rule_id)s, %(priority)s, %(embedding_model)s, %(actor)s) as id
where id is not null
