-- Delete a rule; a trigger erases its jobs and vectors.
with acting as materialized (
  select set_config('embeddings.actor', %(actor)s, true)
)
delete from embeddings.rules using acting where id = %(id)s returning id, rule_id
