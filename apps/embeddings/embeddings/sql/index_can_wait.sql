-- Whether texts wait to be embedded, and no tenant and model has more than this many vectors that are not in the index.
select exists (
    select from posthouse.jobs
    where kind = 'embeddings.embed' and status = 'queued' and scheduled_for <= posthouse.now())
  and not exists (
    select from embeddings.vectors where not is_indexed group by tenant_id, model having count(*) > %(most)s)
