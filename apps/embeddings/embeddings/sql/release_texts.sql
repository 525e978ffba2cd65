-- Give up leases, unless another job has taken them over.
delete from embeddings.leases as l
using unnest(%(tenants)s::text[], %(models)s::text[], %(hashes)s::text[]) as t (tenant_id, model, text_hash)
where l.tenant_id = t.tenant_id and l.model = t.model and l.text_hash = t.text_hash and l.token = any (%(tokens)s::uuid[])
