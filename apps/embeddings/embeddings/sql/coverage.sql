-- Rules and how many of them are embedded; jobs by state, and how many vectors were computed and reused.
select r.rules, r.embedded, j.queued, j.running, j.failed, j.computed, j.reused, m.next as next_model
from (
  select count(*) as rules, count(*) filter (where embedded_hash = text_hash) as embedded from embeddings.rules
) as r
cross join (
  select count(*) filter (where status in ('pending', 'retrying')) as queued,
    count(*) filter (where status = 'processing') as running, count(*) filter (where status = 'failed') as failed,
    count(*) filter (where not reused) as computed, count(*) filter (where reused) as reused
  from embeddings.embedding_jobs
) as j
left join embeddings.models as m on true
