-- Store the vectors of texts.
insert into embeddings.vectors (tenant_id, model, text_hash, embedding, dimensions)
select t.* from unnest(%(tenants)s::text[], %(models)s::text[], %(hashes)s::text[], %(vectors)b::vector[],
  %(dimensions)s::integer[]) as t
on conflict do nothing
