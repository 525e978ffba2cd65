-- The jobs of an import: total, computed, and computed per second.
select count(*) as jobs, count(*) filter (where not reused) as computed,
  count(*) filter (where not reused) / extract(epoch from max(completed_at) - min(started_at))::float as per_second
from embeddings.embedding_jobs where correlation_id = %(import)s
