-- Give up leases, unless another job has taken them over. Locked in the order of take_texts, so that batches cannot deadlock.
delete from embeddings.leases where ctid = any (array(
  select l.ctid
  from unnest(%(tenants)s::text[], %(models)s::text[], %(hashes)s::text[]) as t (tenant_id, model, text_hash)
  join embeddings.leases as l on l.tenant_id = t.tenant_id and l.model = t.model and l.text_hash = t.text_hash
  where l.token = any (%(tokens)s::uuid[])
  order by l.tenant_id, l.model, l.text_hash for update of l))
