-- The rules most similar to a vector of the same model.
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, n.similarity
from embeddings.nearest(null, %(model)s, %(vector)b, %(limit)s) as n
join embeddings.rules as r on r.tenant_id = n.tenant_id and r.embedded_hash = n.text_hash
order by n.similarity desc, r.rule_id
limit %(limit)s
