-- Take leases on texts without a vector; return which were taken. A running job holds the others. Sorted, so that batches
-- cannot deadlock.
insert into embeddings.leases as l (tenant_id, model, text_hash, job_id, token, taken_at, expires_at)
select t.*, posthouse.now(), posthouse.now() + %(lease)s
from unnest(%(tenants)s::text[], %(models)s::text[], %(hashes)s::text[], %(jobs)s::uuid[], %(tokens)s::uuid[])
  as t (tenant_id, model, text_hash, job_id, token)
where not exists (
  select from embeddings.vectors as v
  where v.tenant_id = t.tenant_id and v.model = t.model and v.text_hash = t.text_hash)
order by t.tenant_id, t.model, t.text_hash
on conflict (tenant_id, model, text_hash) do update
set job_id = excluded.job_id, token = excluded.token, taken_at = excluded.taken_at, expires_at = excluded.expires_at
where l.job_id = excluded.job_id or l.expires_at <= posthouse.now() or not exists (
  select from posthouse.jobs as j
  where j.id = l.job_id and j.status = 'running' and j.attempt_started_at <= l.taken_at)
returning l.tenant_id, l.model, l.text_hash
