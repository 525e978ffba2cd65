-- Insert a rule of a tenant.
insert into embeddings.rules (tenant_id, rule_id, title, guidance, rationale, priority)
values (%(tenant)s, %(rule_id)s, %(title)s, %(guidance)s, %(rationale)s, %(priority)s)
