-- The rules most similar to a vector of the same model.
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, n.similarity
from embeddings.nearest(null, %(model)s, (%(vectors)b::vector[])[1], %(limit)s) as n
cross join lateral embeddings.rules_of(n.tenant_id, %(model)s, n.text_hash) as r
order by n.similarity desc, r.rule_id
limit %(limit)s
