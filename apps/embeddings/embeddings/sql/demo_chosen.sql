-- One rule of an import; deterministic.
select r.id, r.guidance, r.rationale
from embeddings.embedding_jobs as j join embeddings.rules as r on r.id = j.rule_id
where j.correlation_id = %(import)s order by r.text_hash limit 1
