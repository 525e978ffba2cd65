-- The rules most similar to a vector of the same model.
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, n.similarity
from (
  select v.tenant_id, v.text_hash, 1 - (v.embedding <=> %(vector)s::vector) as similarity
  from embeddings.vectors as v
  where v.model = %(model)s and exists (
    select from embeddings.rules as r where r.tenant_id = v.tenant_id and r.embedded_hash = v.text_hash)
  order by v.embedding <=> %(vector)s::vector
  limit %(limit)s
) as n
join embeddings.rules as r on r.tenant_id = n.tenant_id and r.embedded_hash = n.text_hash
order by n.similarity desc, r.rule_id
limit %(limit)s
