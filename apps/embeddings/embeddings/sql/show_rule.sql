-- A rule, whether its vector is current, and the model that serves searches.
select r.id, r.rule_id, r.title, r.guidance, r.rationale, r.priority, r.text_hash, m.active as embedding_model,
  r.embedded_hash is not distinct from r.text_hash as embedded
from embeddings.rules as r left join embeddings.models as m on r.embedded_hash is not null
where r.id = %(id)s
