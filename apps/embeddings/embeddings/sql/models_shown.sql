-- The state of the change and its job.
select m.next, coalesce(m.is_paused, false) as is_paused, m.texts_per_minute, m.started_at, m.job_id,
  j.status as job_status, j.last_error as job_error, t.texts, case when m.next is not null then t.done end as done
from (
  select count(*) as texts, count(v.text_hash) as done
  from (select distinct tenant_id, text_hash from embeddings.rules) as r
  left join embeddings.vectors as v
    on v.tenant_id = r.tenant_id and v.model = %(next)s and v.text_hash = r.text_hash
) as t
left join embeddings.models as m on true
left join posthouse.jobs as j on j.id = m.job_id
