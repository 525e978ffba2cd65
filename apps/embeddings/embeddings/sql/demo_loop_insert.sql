-- Insert rules for the loop without a queue.
insert into demo_loop (tenant_id, rule_id, title, guidance, rationale, priority)
select %(tenant)s, t.* from unnest(%(rule_ids)s::text[], %(titles)s::text[], %(guidances)s::text[],
  %(rationales)s::text[], %(priorities)s::text[]) as t
