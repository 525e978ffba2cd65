-- Rules whose current text has its vector are no longer found by their previous one. Locked in a fixed order, so that
-- batches cannot deadlock.
update embeddings.rules set previous_hash = null where ctid = any (array(
  select r.ctid
  from unnest(%(tenants)s::text[], %(hashes)s::text[], %(rules)s::uuid[]) as t (tenant_id, text_hash, rule_id)
  join embeddings.rules as r on r.id = t.rule_id
  where (r.tenant_id, r.text_hash) is not distinct from (t.tenant_id, t.text_hash)
    and r.previous_hash is not null and embeddings.is_embedded(r.tenant_id, r.text_hash)
  order by r.id for update of r))
