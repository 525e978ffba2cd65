-- A rule, and whether its vector is current.
select id, rule_id, title, guidance, rationale, priority, text_hash, embedding_model,
  embedded_hash is not distinct from text_hash as embedded
from embeddings.rules where id = %(id)s
