-- Insert a rule; no row if its name is taken.
insert into embeddings.rules (rule_id, title, guidance, rationale, priority)
values (%(rule_id)s, %(title)s, %(guidance)s, %(rationale)s, %(priority)s)
on conflict (tenant_id, rule_id) do nothing
returning id, rule_id, title, guidance, rationale, priority, text_hash, false as embedded
