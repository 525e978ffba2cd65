-- Let rules refer to the vectors of their texts; return the rules and the dimensions. A rule whose text has changed is skipped, because
-- another job embeds it. All rules are locked first, in a fixed order, so that batches cannot deadlock, and a transaction
-- that restores the text of a running job waits until that job has ended.
with wanted as (
  select * from unnest(%(tenants)s::text[], %(models)s::text[], %(hashes)s::text[], %(rules)s::uuid[])
    as t (tenant_id, model, text_hash, rule_id)
), locked as (
  select r.id, r.tenant_id, r.text_hash from embeddings.rules as r
  where r.id in (select rule_id from wanted) order by r.id for update
)
update embeddings.rules as r
set embedded_hash = case when w.model = %(active)s then w.text_hash else r.embedded_hash end
from locked as l
join wanted as w on w.rule_id = l.id and w.tenant_id = l.tenant_id and w.text_hash = l.text_hash
join embeddings.vectors as v on v.tenant_id = w.tenant_id and v.model = w.model and v.text_hash = w.text_hash
where r.id = l.id
returning r.id, v.dimensions
