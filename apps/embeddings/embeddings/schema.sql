-- Rules of projects and their vectors.
--
-- Rules are written in plain SQL or through the API. A trigger enqueues the embedding in the same transaction if the text
-- changed. The handler computes the vector of each text once (embeddings.vectors) and copies it to all rules with this
-- text (embeddings.rules.embedding), where an HNSW index finds similar rules.
-- Lock order: a rule, then the tables of Posthouse.

do $$
declare
  v_offered text := (select default_version from pg_available_extensions where name = 'vector');
begin
  if v_offered is null or string_to_array(v_offered, '.')::integer[] < '{0,8}' then
    raise feature_not_supported using
      message = format('the embeddings application needs pgvector 0.8 or newer; this Postgres has %s',
        coalesce('version ' || v_offered, 'none')),
      hint = 'Install the pgvector extension on the server, or use the embedded Postgres of Posthouse, which includes it.';
  end if;
end $$;
create extension if not exists vector with schema public;  -- found by every role, regardless of its search path
create schema if not exists embeddings;

-- The text of a rule that is embedded.
create or replace function embeddings.text_of(p_title text, p_guidance text, p_rationale text) returns text
language sql immutable as $$
  select p_title || ' ' || p_guidance || ' ' || coalesce(p_rationale, '')
$$;

create table if not exists embeddings.rules (
  id uuid primary key default gen_random_uuid(),
  tenant_id text not null default coalesce(posthouse.tenant(), 'default'),
  rule_id text not null,
  title text not null,
  guidance text not null,
  rationale text,
  priority text not null default 'medium',
  text_hash text not null generated always as (md5(embeddings.text_of(title, guidance, rationale))) stored,
  -- The vector of the previous text until the new one is embedded. Shorter vectors are padded with zeros, which changes
  -- neither angles nor distances.
  embedding vector(768),
  embedded_hash text,
  embedding_model text,
  created_at timestamptz not null default posthouse.now(),
  updated_at timestamptz not null default posthouse.now(),
  constraint rules_named_once unique (tenant_id, rule_id),
  constraint rules_priority_known check (priority in ('low', 'medium', 'high', 'critical')),
  constraint rules_say_something check (embeddings.text_of(title, guidance, rationale) ~ '\S'),
  constraint rules_embedded_as_a_whole check (num_nulls(embedding, embedded_hash, embedding_model) in (0, 3))
);
create index if not exists rules_by_text on embeddings.rules (tenant_id, text_hash);
create index if not exists rules_near on embeddings.rules using hnsw (embedding vector_cosine_ops);

-- One row per text and model, reused by later rules with the same text.
create table if not exists embeddings.vectors (
  tenant_id text not null,
  model text not null,
  text_hash text not null,
  embedding vector(768) not null,
  dimensions integer not null,
  computed_at timestamptz not null default posthouse.now(),
  primary key (tenant_id, model, text_hash)
);

-- Enqueue the embedding of a rule. The payload contains the current text; while a job for the same text is active, that
-- job is returned.
--
-- Two settings of the transaction apply: embeddings.import becomes the correlation id of the jobs; embeddings.singly = on
-- embeds each rule on its own, with the kind embeddings.embed_one.
create or replace function embeddings.request(
  p_rule embeddings.rules, p_priority text, p_model text default null, p_actor text default null,
  p_source text default 'manual')
returns uuid
language sql as $$
  select posthouse.enqueue(
    case when current_setting('embeddings.singly', true) = 'on' then 'embeddings.embed_one' else 'embeddings.embed' end,
    jsonb_strip_nulls(jsonb_build_object(
      'rule_id', p_rule.id,
      'input_text', embeddings.text_of(p_rule.title, p_rule.guidance, p_rule.rationale),
      'text_hash', p_rule.text_hash,
      'embedding_model', p_model)),
    tenant_id => p_rule.tenant_id,
    queue => 'embeddings',
    priority => posthouse.priority(p_priority),
    dedupe_key => concat_ws(':', p_rule.id, p_rule.text_hash, p_model),
    correlation_id => nullif(current_setting('embeddings.import', true), ''),
    subject => 'rule ' || p_rule.rule_id,
    source => p_source,
    created_by => p_actor)
$$;

-- Security definer: a tenant that writes rules may enqueue their embedding, but nothing else.
create or replace function embeddings.rule_changed() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform embeddings.request(new,
    case new.priority when 'critical' then 'urgent' when 'high' then 'high' else 'normal' end, p_source => 'event');
  return null;
end $$;

create or replace trigger rules_added after insert on embeddings.rules
for each row execute function embeddings.rule_changed();
create or replace trigger rules_changed after update on embeddings.rules
for each row when (old.text_hash is distinct from new.text_hash) execute function embeddings.rule_changed();

-- The same on request, for a rule visible to the caller; null if there is none.
create or replace function embeddings.request_by_id(p_rule uuid, p_priority text, p_model text, p_actor text)
returns uuid
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select embeddings.request(r, p_priority, p_model, p_actor) from embeddings.rules as r
  where r.id = p_rule and (posthouse.tenant() is null or r.tenant_id = posthouse.tenant())
$$;

-- Embedding jobs, with the statuses of the embedding queue.
create or replace view embeddings.embedding_jobs with (security_invoker = true) as
select
  j.id, j.tenant_id as project_id,
  case when j.payload ->> 'rule_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'  -- an invalid id must not break the view
    then (j.payload ->> 'rule_id')::uuid end as rule_id,
  case j.status
    when 'queued' then case when j.attempt_count > 0 then 'retrying' else 'pending' end
    when 'running' then 'processing'
    when 'succeeded' then 'completed'
    when 'canceled' then 'canceled'
    else 'failed' end as status,
  case when j.priority <= 10 then 'urgent' when j.priority <= 50 then 'high' when j.priority <= 100 then 'normal'
    else 'low' end as priority,
  coalesce(j.result ->> 'embedding_model', j.payload ->> 'embedding_model') as embedding_model,
  j.payload ->> 'input_text' as input_text, j.payload ->> 'text_hash' as text_hash,
  j.attempt_count as attempts, j.max_attempts,
  j.queued_at as created_at, j.started_at, j.finished_at as completed_at,
  v.embedding as embedding_vector, (j.result ->> 'embedding_dimensions')::integer as embedding_dimensions,
  (j.result ->> 'reused')::boolean as reused,
  j.last_error as error_message, (j.result ->> 'processing_time_ms')::double precision as processing_time_ms,
  j.worker_id, j.created_by, j.correlation_id, j.result ->> 'worker_version' as worker_version
from posthouse.jobs as j
left join embeddings.vectors as v
  on v.tenant_id = j.tenant_id and v.model = j.result ->> 'embedding_model' and v.text_hash = j.payload ->> 'text_hash'
where j.kind in ('embeddings.embed', 'embeddings.embed_one');

-- Number of jobs per status and priority.
create or replace view embeddings.queue_health with (security_invoker = true) as
select status, priority, count(*) as count, avg(processing_time_ms) as avg_time_ms,
  max(created_at) as newest, min(created_at) as oldest
from embeddings.embedding_jobs
group by status, priority
order by array_position('{urgent,high,normal,low}', priority), status;

-- Completed and failed jobs per worker in the last 24 hours.
create or replace view embeddings.worker_performance with (security_invoker = true) as
select worker_id, count(*) filter (where status = 'completed') as jobs_completed,
  avg(processing_time_ms) as avg_time, count(*) filter (where status = 'failed') as failures
from embeddings.embedding_jobs
where completed_at > posthouse.now() - interval '24 hours' and worker_id is not null
group by worker_id;

-- Jobs that failed and will not be retried.
create or replace view embeddings.embedding_job_failures with (security_invoker = true) as
select * from embeddings.embedding_jobs where status = 'failed';

alter table embeddings.rules enable row level security;
alter table embeddings.vectors enable row level security;
drop policy if exists engine on embeddings.rules;
drop policy if exists tenant on embeddings.rules;
drop policy if exists engine on embeddings.vectors;
drop policy if exists tenant on embeddings.vectors;
create policy engine on embeddings.rules to posthouse_engine using (true);
create policy tenant on embeddings.rules to posthouse_tenant using (tenant_id = posthouse.tenant());
create policy engine on embeddings.vectors to posthouse_engine using (true);
create policy tenant on embeddings.vectors for select to posthouse_tenant using (tenant_id = posthouse.tenant());

revoke execute on all functions in schema embeddings from public;
grant usage on schema embeddings to posthouse_engine, posthouse_tenant;
grant select, insert, update, delete on embeddings.rules to posthouse_engine, posthouse_tenant;
grant select, insert, update, delete on embeddings.vectors to posthouse_engine;
grant select on embeddings.vectors, embeddings.embedding_jobs, embeddings.queue_health, embeddings.worker_performance,
  embeddings.embedding_job_failures to posthouse_engine, posthouse_tenant;
grant execute on function embeddings.text_of, embeddings.request_by_id to posthouse_engine, posthouse_tenant;
grant execute on function embeddings.request to posthouse_engine;
