-- The rules of the tenant that are most similar to a rule, without the rule itself. Its vector is read first, because
-- the index is used only for a constant.
with self as materialized (
  select id, tenant_id, embedding, embedding_model from embeddings.rules where id = %(rule)s
)
select n.* from self as s
cross join lateral (
  select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, 1 - (r.embedding <=> s.embedding) as similarity
  from embeddings.rules as r
  where r.tenant_id = s.tenant_id and r.embedding_model = s.embedding_model and r.id <> s.id
  order by r.embedding <=> s.embedding
  limit %(limit)s
) as n
order by n.similarity desc
