-- Make the next model the active one, if the current text of every rule has its vector. The models are locked before, by a
-- separate statement, so that this one sees all rules that a batch has attached.
with switched as (
  update embeddings.models set active = next, next = null, started_at = null, is_paused = false, texts_per_minute = null
  where next = %(next)s and not exists (
    select from embeddings.rules as r where not exists (
      select from embeddings.vectors as v
      where v.tenant_id = r.tenant_id and v.model = %(next)s and v.text_hash = r.text_hash))
  returning active
), moved as (
  update embeddings.rules as r set embedded_hash = r.text_hash
  from switched where r.embedded_hash is distinct from r.text_hash
)
select active from switched
