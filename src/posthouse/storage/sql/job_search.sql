-- The search of the list of jobs, and its suggestions.

-- name: search_known_words
-- Which of these words are kinds or subjects.
select
  w.word,
  exists (select from posthouse.definitions as d where d.key = w.word)
    or exists (select from posthouse.lanes as l where l.kind = w.word) as kind,
  exists (select from posthouse.jobs as j where j.subject = w.word) as subject
from unnest(%(words)s::text[]) as w (word)

-- name: search_suggest_names
-- Names for a field of a filter, each with a short description: from definitions, lanes, workers, tenants and failure
-- groups.
select value, coalesce(max(detail), '') as detail
from (
  select key as value, nullif(description, '') as detail from posthouse.definitions where %(field)s = 'kind'
  union all select kind, null from posthouse.lanes where %(field)s = 'kind'
  union all select queue, null from posthouse.definitions where %(field)s = 'queue'
  union all select queue, null from posthouse.lanes where %(field)s = 'queue'
  union all select name, case when paused_at is not null then 'paused' end from posthouse.queues where %(field)s = 'queue'
  union all select name, hostname from posthouse.visible_workers() where %(field)s = 'worker' and name <> ''
  union all select id, nullif(label, '') from posthouse.tenants where %(field)s = 'tenant'
  union all select tenant_id, null from posthouse.lanes where %(field)s = 'tenant'
  union all (select fingerprint, type || ': ' || message from posthouse.failure_groups
             where %(field)s = 'fingerprint' order by last_seen desc limit 100)
  union all (select type, null from posthouse.failure_groups
             where %(field)s = 'error' and type <> '' order by last_seen desc limit 100)
) as names (value, detail)
where starts_with(lower(value), lower(%(typed)s))
group by value
order by value
limit %(limit)s

-- name: search_sample_jobs
-- Filterable fields of these jobs. Payloads stored separately are large and are left out.
select j.subject, j.correlation_id as correlation, j.worker_id::text as worker, j.kind, j.queue,
  case when %(payloads)s then j.payload end as payload, d.schema::text as schema, coalesce(d.redact, '{}') as redact
from (
  select id, subject, correlation_id, null::uuid as worker_id, kind, queue, payload from posthouse.ready
  union all select id, subject, correlation_id, null, kind, queue, payload from posthouse.waiting
  union all select id, subject, correlation_id, worker_id, kind, queue, payload from posthouse.running
  union all select id, subject, correlation_id, worker_id, kind, queue, payload from posthouse.history) as j
left join posthouse.definitions as d on d.key = j.kind
where j.id = any (%(ids)s::uuid[])
order by j.id desc

-- name: job_redaction_rules
-- The payload of a job as text, which the caller parses in a thread if it is large, and the schema and redaction paths
-- of its kind.
select j.payload::text as payload, d.schema::text as schema, coalesce(d.redact, '{}') as redact
from posthouse.jobs as j
left join posthouse.definitions as d on d.key = j.kind
where j.id = %(id)s
