-- A rule, and whether the vector that it has is that of its text.
select id, rule_id, title, guidance, rationale, priority, text_hash, embedding_model,
  embedded_hash is not distinct from text_hash as embedded
from embeddings.rules where id = %(id)s
