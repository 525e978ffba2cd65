-- Deletes a rule.
delete from embeddings.rules where id = %(id)s returning id, rule_id
