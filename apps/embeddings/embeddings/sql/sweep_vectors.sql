-- Delete vectors that have been unused for a time; return how many.
select embeddings.sweep_vectors(%(keep)s)
