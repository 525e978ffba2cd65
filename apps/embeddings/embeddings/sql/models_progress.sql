-- Number of texts, and how many have a vector of the next model.
select count(*) as texts, count(v.text_hash) as done
from (select distinct tenant_id, text_hash from embeddings.rules) as r
left join embeddings.vectors as v
  on v.tenant_id = r.tenant_id and v.model = %(next)s and v.text_hash = r.text_hash
