-- For each job: whether its rule exists and still has this text, and whether the text has a vector. A separate statement
-- after the leases, because it must see what other transactions have committed until then.
select r.id is not null, r.text_hash is not distinct from t.text_hash, v.text_hash is not null
from unnest(%(tenants)s::text[], %(models)s::text[], %(hashes)s::text[], %(rules)s::uuid[])
  with ordinality as t (tenant_id, model, text_hash, rule_id, nth)
left join embeddings.rules as r on r.id = t.rule_id and r.tenant_id = t.tenant_id
left join embeddings.vectors as v
  on v.tenant_id = t.tenant_id and v.model = t.model and v.text_hash = t.text_hash
order by t.nth
