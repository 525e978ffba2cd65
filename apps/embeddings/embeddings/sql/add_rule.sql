-- A new rule, unless there is one of this name.
insert into embeddings.rules (rule_id, title, guidance, rationale, priority)
values (%(rule_id)s, %(title)s, %(guidance)s, %(rationale)s, %(priority)s)
on conflict (tenant_id, rule_id) do nothing
returning id, rule_id, title, guidance, rationale, priority, text_hash, false as embedded
