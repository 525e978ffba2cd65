-- The rules of the tenant that are most similar to a rule, without the rule itself. Its vector is read first, because
-- the index is used only for a constant.
with self as materialized (
  select id, tenant_id, embedding, embedding_model from embeddings.embedded_rules where id = %(rule)s
)
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, n.similarity
from self as s
cross join lateral (
  select v.text_hash, 1 - (v.embedding <=> s.embedding) as similarity
  from embeddings.vectors as v
  where v.tenant_id = s.tenant_id and v.model = s.embedding_model and exists (
    select from embeddings.rules as r where r.tenant_id = v.tenant_id and r.embedded_hash = v.text_hash)
  order by v.embedding <=> s.embedding
  limit %(limit)s + 1
) as n
join embeddings.rules as r on r.tenant_id = s.tenant_id and r.embedded_hash = n.text_hash and r.id <> s.id
order by n.similarity desc, r.rule_id
limit %(limit)s
