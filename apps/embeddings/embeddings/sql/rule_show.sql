-- A rule, whether its vector is current, and the model that serves searches.
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, r.text_hash, e.embedding_model,
  e.embedded_hash is not distinct from r.text_hash as embedded
from embeddings.rules as r left join embeddings.embedded_rules as e on e.id = r.id
where r.id = %(id)s
