-- Enqueue the job that adds vectors to the index, if too many of a tenant and a model are not in it.
select posthouse.enqueue('embeddings.index', '{}', queue => 'embeddings', priority => posthouse.priority('low'),
  dedupe_key => 'embeddings.index', source => 'event')
where %(exact)s < (
  select count(*) from embeddings.vectors
  where tenant_id = %(tenant)s and model = %(model)s and not is_indexed)
