-- Add vectors of a tenant and a model to the index; return how many.
select embeddings.index_vectors(%(tenant)s, %(model)s, %(limit)s)
