-- The jobs of an import: total, computed, and the seconds to the end of the last one, from the insert of the first one or
-- from the first start.
select count(*) as jobs, count(*) filter (where not reused) as computed,
  extract(epoch from max(completed_at)
    - case when %(from_insert)s then min(created_at) else min(started_at) end)::float as seconds
from embeddings.embedding_jobs where correlation_id = %(import)s
