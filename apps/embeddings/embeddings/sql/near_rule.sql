-- The rules of the tenant that are most similar to a rule, without the rule itself. Its vector is read first, because
-- the index is used only for a constant.
with self as materialized (
  select id, tenant_id, embedding, embedding_model from embeddings.embedded_rules where id = %(rule)s
)
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, n.similarity
from self as s
cross join lateral embeddings.nearest(s.tenant_id, s.embedding_model, s.embedding, %(limit)s + 1) as n
cross join lateral embeddings.rules_of(s.tenant_id, s.embedding_model, n.text_hash) as r
where r.id <> s.id
order by n.similarity desc, r.rule_id
limit %(limit)s
