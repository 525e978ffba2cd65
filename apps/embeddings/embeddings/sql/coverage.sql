-- Rules and how many of them are embedded; jobs by state, and how many vectors were computed and reused; during a change of
-- the model, how many texts have a vector of the next one.
select r.rules, r.embedded, j.queued, j.running, j.failed, j.computed, j.reused, m.next as next_model, t.texts, t.next_done
from (
  select count(*) as rules, count(v.text_hash) as embedded
  from embeddings.rules as r
  left join embeddings.models as m on true
  left join embeddings.vectors as v on v.tenant_id = r.tenant_id and v.model = m.active and v.text_hash = r.text_hash
) as r
cross join (
  select count(*) filter (where status in ('pending', 'retrying')) as queued,
    count(*) filter (where status = 'processing') as running, count(*) filter (where status = 'failed') as failed,
    count(*) filter (where not reused) as computed, count(*) filter (where reused) as reused
  from embeddings.embedding_jobs
) as j
left join embeddings.models as m on true
left join lateral (
  select count(*) as texts, count(v.text_hash) as next_done
  from (select distinct tenant_id, text_hash from embeddings.rules) as r
  left join embeddings.vectors as v on v.tenant_id = r.tenant_id and v.model = m.next and v.text_hash = r.text_hash
) as t on m.next is not null
