-- Texts of rules without a vector of the next model, after a position.
select distinct on (r.tenant_id, r.text_hash)
  r.tenant_id, r.text_hash, embeddings.text_of(r.title, r.guidance, r.rationale)
from embeddings.rules as r
where (r.tenant_id, r.text_hash) > (%(tenant)s, %(hash)s) and not exists (
  select from embeddings.vectors as v
  where v.tenant_id = r.tenant_id and v.model = %(next)s and v.text_hash = r.text_hash)
order by r.tenant_id, r.text_hash
limit %(limit)s
