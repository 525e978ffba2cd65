-- Insert many rules of a tenant.
insert into embeddings.rules (tenant_id, rule_id, title, guidance, rationale, priority)
select %(tenant)s, t.* from unnest(%(rule_ids)s::text[], %(titles)s::text[], %(guidances)s::text[],
  %(rationales)s::text[], %(priorities)s::text[]) as t
