-- Lock the texts for this transaction; return which were locked. Another transaction computes the others.
select t.nth::integer, pg_try_advisory_xact_lock(7704, hashtext(concat_ws(' ', t.tenant_id, t.model, t.text_hash)))
from unnest(%(tenants)s::text[], %(models)s::text[], %(hashes)s::text[]) with ordinality as t (tenant_id, model, text_hash, nth)
order by t.nth
