-- The rules of the tenant that are most similar to a rule, without the rule itself. Its vector is read first, because
-- the index is used only for a constant.
with self as materialized (
  select id, tenant_id, embedding, embedding_model from embeddings.embedded_rules where id = %(rule)s
)
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, n.similarity
from self as s
cross join lateral embeddings.nearest(s.tenant_id, s.embedding_model, s.embedding, %(limit)s + 1) as n
join embeddings.rules as r on r.tenant_id = s.tenant_id and r.embedded_hash = n.text_hash and r.id <> s.id
order by n.similarity desc, r.rule_id
limit %(limit)s
