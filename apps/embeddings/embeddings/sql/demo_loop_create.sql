-- A table of rules without triggers, for the loop without a queue. A temporary one, which is faster than others.
create temporary table if not exists demo_loop (
  tenant_id text not null, rule_id text primary key, title text not null, guidance text not null, rationale text,
  priority text not null, embedding vector(768))
