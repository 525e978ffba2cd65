-- Make the next model the active one, if the current text of every rule has its vector. The models are locked before, by a
-- separate statement, so that this one sees all vectors that a batch has stored.
with switched as (
  update embeddings.models set active = next, next = null, started_at = null, is_paused = false, texts_per_minute = null
  where next = %(next)s and not exists (
    select from embeddings.rules as r where not exists (
      select from embeddings.vectors as v
      where v.tenant_id = r.tenant_id and v.model = %(next)s and v.text_hash = r.text_hash))
  returning active
), moved as (
  update embeddings.rules as r set previous_hash = null from switched where r.previous_hash is not null
)
select active from switched
