-- Deletes a rule, and cancels and erases its jobs.
with gone as (
  delete from embeddings.rules where id = %(id)s returning id, rule_id, tenant_id
), erased as materialized (
  select posthouse.erase('rule ' || g.rule_id, g.tenant_id, %(actor)s) from gone as g
)
select g.id, g.rule_id from gone as g cross join (select count(*) from erased) as e
