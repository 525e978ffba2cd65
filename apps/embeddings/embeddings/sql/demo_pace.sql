-- The jobs of one import: how many there were, how many had to be computed, and how many of those in a second.
select count(*) as jobs, count(*) filter (where not reused) as computed,
  count(*) filter (where not reused) / extract(epoch from max(completed_at) - min(started_at))::float as per_second
from embeddings.embedding_jobs where correlation_id = %(import)s
