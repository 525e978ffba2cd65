-- Change the given fields of a rule.
update embeddings.rules
set title = coalesce(%(title)s, title), guidance = coalesce(%(guidance)s, guidance),
  rationale = case when %(has_rationale)s then %(rationale)s else rationale end,
  priority = coalesce(%(priority)s, priority), updated_at = posthouse.now()
where id = %(id)s
returning id, rule_id, title, guidance, rationale, priority, text_hash,
  embeddings.is_embedded(tenant_id, text_hash) as embedded
