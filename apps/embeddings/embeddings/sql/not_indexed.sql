-- The tenants and models with more than this many vectors that are not in the index.
select tenant_id, model from embeddings.vectors where not is_indexed
group by tenant_id, model having count(*) > %(exact)s
