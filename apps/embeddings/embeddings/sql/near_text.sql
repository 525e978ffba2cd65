-- The rules most similar to a vector of the same model.
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, 1 - (r.embedding <=> %(vector)s::vector) as similarity
from embeddings.rules as r
where r.embedding_model = %(model)s
order by r.embedding <=> %(vector)s::vector
limit %(limit)s
