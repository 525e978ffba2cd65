-- The jobs of an import: total, computed, and the seconds from the first start to the last end.
select count(*) as jobs, count(*) filter (where not reused) as computed,
  extract(epoch from max(completed_at) - min(started_at))::float as seconds
from embeddings.embedding_jobs where correlation_id = %(import)s
