-- Kinds of job, or one of them, and how many live workers know each. What an operator set lies over what the code
-- says, or over what is ordinary.
select
  d.key, d.description, d.queue, d.priority, d.max_attempts, d.timeout_seconds, d.retry, d.schema, d.limits,
  d.requires, d.prefers, d.followup_queues, d.active, d.redact, d.keep_steps, d.keep_progress, d.runner, d.command, d.origin,
  array(select jsonb_object_keys(d.overrides) order by 1) as overridden,
  (select coalesce(jsonb_object_agg(o.key, b.beneath -> o.key), '{}')
   from jsonb_object_keys(d.overrides) as o (key),
     (select posthouse.definition_defaults() || coalesce(d.announced, '{}') as beneath) as b) as beneath,
  d.version, d.created_at, d.updated_at,
  (select count(*) from posthouse.seen_workers() as w
   where d.key = any (w.kinds) and posthouse.is_there(w, %(offline_after)s)) as workers
from posthouse.definitions as d
where (%(key)s::text is null or d.key = %(key)s::text)
  and (%(after)s::text is null or d.key > %(after)s::text)
order by d.key
limit %(limit)s
