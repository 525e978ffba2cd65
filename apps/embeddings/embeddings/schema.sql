-- Rules of projects and their vectors.
--
-- Rules are written in plain SQL or through the API. A trigger enqueues the embedding in the same transaction if the text
-- changed. The handler computes the vector of each text and model once (embeddings.vectors), and finds it for all rules
-- with this text by its hash, so that nothing is written to a rule when it is embedded. New vectors are searched one by
-- one; where there are many, a job adds them to an HNSW index, because this costs more than all other work of Postgres
-- for a vector. embeddings.models says which model serves searches, so that a change of the model is one small
-- transaction. While a batch computes, no transaction is open: embeddings.leases says who computes what.
-- Lock order: the models, leases, rules by id, then the tables of Posthouse.

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
  -- The text whose vector serves searches until the current text has one; set when the text changes.
  previous_hash text,
  created_at timestamptz not null default posthouse.now(),
  updated_at timestamptz not null default posthouse.now(),
  constraint rules_named_once unique (tenant_id, rule_id),
  constraint rules_priority_known check (priority in ('low', 'medium', 'high', 'critical')),
  constraint rules_say_something check (embeddings.text_of(title, guidance, rationale) ~ '\S')
);
create index if not exists rules_by_text on embeddings.rules (tenant_id, text_hash);
create index if not exists rules_by_previous_text on embeddings.rules (tenant_id, previous_hash)
  where previous_hash is not null;

-- One row per text and model, shared by all rules with this text. Shorter vectors are padded with zeros, which changes
-- neither angles nor distances.
create table if not exists embeddings.vectors (
  tenant_id text not null,
  model text not null,
  text_hash text not null,
  embedding vector(768) not null,
  dimensions integer not null,
  computed_at timestamptz not null default posthouse.now(),
  unused_since timestamptz,  -- set by embeddings.sweep_vectors
  is_indexed boolean not null default false,  -- set by embeddings.index_vectors
  primary key (tenant_id, model, text_hash)
);
alter table embeddings.vectors alter embedding set storage plain;  -- read without a look into a second table
create index if not exists vectors_near on embeddings.vectors using hnsw (embedding vector_cosine_ops) where is_indexed;
create index if not exists vectors_not_indexed on embeddings.vectors (tenant_id, model) where not is_indexed;
create index if not exists vectors_unused on embeddings.vectors (unused_since) where unused_since is not null;

-- The model that serves searches, and the one that replaces it once all texts have its vector. One row at most; the first
-- batch inserts it.
create table if not exists embeddings.models (
  is_only boolean primary key default true check (is_only),
  active text not null,
  next text check (next <> active),
  is_paused boolean not null default false,
  texts_per_minute integer check (texts_per_minute > 0),
  job_id uuid,  -- the latest job of the change
  started_at timestamptz
);

-- Texts that a job computes. A lease ends when its time is over or its job no longer runs.
create table if not exists embeddings.leases (
  tenant_id text not null,
  model text not null,
  text_hash text not null,
  job_id uuid not null,
  token uuid not null,
  taken_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (tenant_id, model, text_hash)
);

-- Whether the job that took a lease still runs. A function, so that it is planned only if a lease is in the way: planning
-- takes milliseconds, because the view of jobs reads several tables.
create or replace function embeddings.is_held(p_job uuid, p_taken_at timestamptz) returns boolean
language sql stable as $$
  select exists (
    select from posthouse.jobs as j
    where j.id = p_job and j.status = 'running' and j.attempt_started_at <= p_taken_at)
$$;

-- Take leases on texts without a vector, each for the first job that needs it, unless another running job holds the lease.
-- Sorted, so that batches cannot deadlock. Returns for each job whether its rule exists, still has this text and is found
-- by its previous one, whether the job has the lease, and the dimensions of the vector if there is one: in a statement of
-- its own, because it must see what other transactions have committed until then. Tables are read by subqueries with a
-- limit, which use an index: after many rows were deleted, joins read whole tables for each text.
create or replace function embeddings.take_texts(
  p_tenants text[], p_models text[], p_hashes text[], p_rules uuid[], p_jobs uuid[], p_tokens uuid[], p_lease interval)
returns table (rule_exists boolean, is_current boolean, has_previous boolean, is_taken boolean, dimensions integer)
language plpgsql
set enable_seqscan = off  -- a plan made while the tables were empty must not read all of them when they are not
set jit = off  -- disabled plan nodes have a huge cost, which would trigger JIT compilation
as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'off', true);  -- if a crash of Postgres loses leases, texts are computed twice
  insert into embeddings.leases as l (tenant_id, model, text_hash, job_id, token, taken_at, expires_at)
  select distinct on (t.tenant_id, t.model, t.text_hash) t.*, posthouse.now(), posthouse.now() + p_lease
  from unnest(p_tenants, p_models, p_hashes, p_jobs, p_tokens) as t (tenant_id, model, text_hash, job_id, token)
  where (
    select true from embeddings.vectors as v
    where v.tenant_id = t.tenant_id and v.model = t.model and v.text_hash = t.text_hash limit 1) is null
  order by t.tenant_id, t.model, t.text_hash
  on conflict (tenant_id, model, text_hash) do update
  set job_id = excluded.job_id, token = excluded.token, taken_at = excluded.taken_at, expires_at = excluded.expires_at
  where l.job_id = excluded.job_id or l.expires_at <= posthouse.now() or not embeddings.is_held(l.job_id, l.taken_at);
  return query
  select r.id is not null, r.text_hash is not distinct from t.text_hash, r.previous_hash is not null,
    l.token is not null, v.dimensions
  from unnest(p_tenants, p_models, p_hashes, p_rules, p_tokens)
    with ordinality as t (tenant_id, model, text_hash, rule_id, token, nth)
  left join lateral (
    -- no equality of tenants: while the table is small, the planner may prefer to read all rules of the tenant
    select r.* from embeddings.rules as r
    where r.id = t.rule_id and r.tenant_id is not distinct from t.tenant_id limit 1) as r on true
  left join lateral (
    select l.token from embeddings.leases as l
    where l.tenant_id = t.tenant_id and l.model = t.model and l.text_hash = t.text_hash and l.token = t.token
    limit 1) as l on true
  left join lateral (
    select v.dimensions from embeddings.vectors as v
    where v.tenant_id = t.tenant_id and v.model = t.model and v.text_hash = t.text_hash limit 1) as v on true
  order by t.nth;
end $$;

-- Whether a rule has this text, or may be found by its vector.
create or replace function embeddings.is_referenced(p_tenant text, p_hash text) returns boolean
language sql stable as $$
  select exists (select from embeddings.rules as r where r.tenant_id = p_tenant and r.text_hash = p_hash)
    or exists (select from embeddings.rules as r where r.tenant_id = p_tenant and r.previous_hash = p_hash)
$$;

-- Whether a text has a vector of the active model.
create or replace function embeddings.is_embedded(p_tenant text, p_hash text) returns boolean
language sql stable as $$
  select exists (
    select from embeddings.models as m
    join embeddings.vectors as v on v.tenant_id = p_tenant and v.model = m.active and v.text_hash = p_hash)
$$;

-- The rules that the vector of a text serves: those with this text, and those whose new text has no vector yet.
create or replace function embeddings.rules_of(p_tenant text, p_model text, p_hash text) returns setof embeddings.rules
language sql stable as $$
  select r.* from embeddings.rules as r where r.tenant_id = p_tenant and r.text_hash = p_hash
  union all
  select r.* from embeddings.rules as r
  where r.tenant_id = p_tenant and r.previous_hash = p_hash and not exists (
    select from embeddings.vectors as v
    where v.tenant_id = r.tenant_id and v.model = p_model and v.text_hash = r.text_hash)
$$;

-- Delete vectors that have been unused for p_keep: no rule has their text, or their model is not in use. The first sweep
-- that finds a vector unused starts its time. Returns how many were deleted.
create or replace function embeddings.sweep_vectors(p_keep interval) returns integer
language plpgsql as $$
declare
  v_deleted integer;
begin
  update embeddings.vectors as v set unused_since = case when not u.is_used then posthouse.now() end
  from (
    select v.tenant_id, v.model, v.text_hash,
      exists (select from embeddings.models as m where v.model in (m.active, m.next))
        and embeddings.is_referenced(v.tenant_id, v.text_hash) as is_used
    from embeddings.vectors as v
  ) as u
  where (v.tenant_id, v.model, v.text_hash) = (u.tenant_id, u.model, u.text_hash)
    and u.is_used = (v.unused_since is not null);
  delete from embeddings.vectors where unused_since <= posthouse.now() - p_keep;
  get diagnostics v_deleted = row_count;
  delete from embeddings.leases where expires_at <= posthouse.now();
  return v_deleted;
end $$;

-- Add up to p_limit vectors of a tenant and a model to the HNSW index; return how many. Vectors that another transaction
-- changes or deletes are left for the next call: waiting for them could deadlock.
create or replace function embeddings.index_vectors(p_tenant text, p_model text, p_limit integer) returns integer
language plpgsql as $$
declare
  v_indexed integer;
begin
  with next as materialized (  -- a plan may otherwise read the vectors again after some of them have changed
    select tenant_id, model, text_hash from embeddings.vectors
    where tenant_id = p_tenant and model = p_model and not is_indexed
    limit p_limit for update skip locked
  )
  update embeddings.vectors as v set is_indexed = true from next
  where (v.tenant_id, v.model, v.text_hash) = (next.tenant_id, next.model, next.text_hash);
  get diagnostics v_indexed = row_count;
  return v_indexed;
end $$;

-- The texts of rules whose vectors are most similar to a vector of the same model; p_tenant null: of all visible tenants.
-- The HNSW index finds the candidates that are in it; the others are compared one by one, and sorted before it is looked
-- up which of them serve a rule, so that few are looked up.
create or replace function embeddings.nearest(p_tenant text, p_model text, p_vector vector, p_limit integer)
returns table (tenant_id text, text_hash text, similarity double precision)
language sql stable as $$
  select n.tenant_id, n.text_hash, 1 - n.distance
  from (
    (select v.tenant_id, v.text_hash, v.embedding <=> p_vector as distance
     from embeddings.vectors as v
     where v.is_indexed and v.model = p_model and (p_tenant is null or v.tenant_id = p_tenant)
       and exists (select from embeddings.rules_of(v.tenant_id, p_model, v.text_hash))
     order by v.embedding <=> p_vector
     limit p_limit)
    union all
    (select s.tenant_id, s.text_hash, s.distance
     from (
       select v.tenant_id, v.text_hash, v.embedding <=> p_vector as distance
       from embeddings.vectors as v
       where not v.is_indexed and v.model = p_model and (p_tenant is null or v.tenant_id = p_tenant)
       order by distance
     ) as s
     where exists (select from embeddings.rules_of(s.tenant_id, p_model, s.text_hash))
     order by s.distance
     limit p_limit)
  ) as n
  order by n.distance
  limit p_limit
$$;

-- The job that embeds a rule, for posthouse.enqueue_many. The payload contains the current text.
--
-- The setting embeddings.import of the transaction becomes the correlation id of the jobs.
create or replace function embeddings.job_of(
  p_rule embeddings.rules, p_priority text, p_source text, p_model text default null, p_actor text default null)
returns jsonb
language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'kind', 'embeddings.embed',
    'payload', jsonb_build_object(
      'rule_id', p_rule.id,
      'input_text', embeddings.text_of(p_rule.title, p_rule.guidance, p_rule.rationale),
      'text_hash', p_rule.text_hash,
      'embedding_model', p_model),
    'tenant_id', p_rule.tenant_id,
    'queue', 'embeddings',
    'priority', posthouse.priority(p_priority),
    'dedupe_key', concat_ws(':', p_rule.id, p_rule.text_hash, p_model),
    'correlation_id', nullif(current_setting('embeddings.import', true), ''),
    'subject', 'rule ' || p_rule.id,
    'source', p_source,
    'created_by', p_actor))
$$;

-- Enqueue the embedding of a rule; while a job for the same text and model is active, that job stands for it. The jobs of
-- new rules have no dedupe key (see rules_added), so they are found by their subject.
create or replace function embeddings.request(
  p_rule embeddings.rules, p_priority text, p_source text, p_model text default null, p_actor text default null)
returns uuid
language sql as $$
  select coalesce(
    (select j.id from posthouse.jobs as j
     where j.subject = 'rule ' || p_rule.id and j.tenant_id = p_rule.tenant_id and j.kind = 'embeddings.embed'
       and j.status in ('queued', 'running') and j.payload ->> 'text_hash' = p_rule.text_hash
       and j.payload ->> 'embedding_model' is not distinct from p_model
     limit 1),
    (select e.id from posthouse.enqueue_many(jsonb_build_array(
       embeddings.job_of(p_rule, p_priority, p_source, p_model, p_actor))) as e))
$$;

-- The priority of the job of a rule.
create or replace function embeddings.urgency_of(p_priority text) returns text
language sql immutable as $$
  select case p_priority when 'critical' then 'urgent' when 'high' then 'high' else 'normal' end
$$;

-- Enqueue the embedding of new rules. For each statement and not for each row: this takes a third of the time. Without a
-- dedupe key, because no other job can embed a rule that is not committed: an insert takes 38 us of CPU time per rule
-- instead of 84.
-- Security definer: a tenant that writes rules may enqueue their embedding, but nothing else.
create or replace function embeddings.rules_added() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_jobs jsonb := (
    select jsonb_agg(
      embeddings.job_of(row(a.*)::embeddings.rules, embeddings.urgency_of(a.priority), 'event') - 'dedupe_key')
    from added as a);
begin
  if v_jobs is not null then
    perform posthouse.enqueue_many(v_jobs);
  end if;
  return null;
end $$;

-- The same for a rule whose text has changed. The vector of the old text, if there is one, serves searches until the new
-- text has one.
create or replace function embeddings.rule_changed() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update embeddings.rules set previous_hash = old.text_hash
  where id = new.id and embeddings.is_embedded(old.tenant_id, old.text_hash);
  perform embeddings.request(new, embeddings.urgency_of(new.priority), 'event');
  return null;
end $$;

create or replace trigger rules_added after insert on embeddings.rules
referencing new table as added for each statement execute function embeddings.rules_added();
create or replace trigger rules_changed after update on embeddings.rules
for each row when (old.text_hash is distinct from new.text_hash) execute function embeddings.rule_changed();

-- A deleted rule leaves no text: its jobs are canceled and erased, and its vectors deleted unless another rule has the
-- same text. The setting embeddings.actor of the transaction is recorded as the requester.
create or replace function embeddings.rule_deleted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform posthouse.erase('rule ' || old.id, old.tenant_id, nullif(current_setting('embeddings.actor', true), ''));
  delete from embeddings.vectors as v
  where v.tenant_id = old.tenant_id and v.text_hash in (old.text_hash, old.previous_hash)
    and not embeddings.is_referenced(v.tenant_id, v.text_hash);
  return null;
end $$;

create or replace trigger rules_deleted after delete on embeddings.rules
for each row execute function embeddings.rule_deleted();

-- The same on request, for a rule visible to the caller; null if there is none.
create or replace function embeddings.request_by_id(p_rule uuid, p_priority text, p_model text, p_actor text)
returns uuid
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select embeddings.request(r, p_priority, 'manual', p_model, p_actor) from embeddings.rules as r
  where r.id = p_rule and (posthouse.tenant() is null or r.tenant_id = posthouse.tenant())
$$;

-- Enqueue the job that embeds all texts with the next model; while one is active, that job is returned.
create or replace function embeddings.request_reembedding(p_actor text) returns uuid
language sql as $$
  select posthouse.enqueue('embeddings.reembed', '{}', queue => 'embeddings', priority => posthouse.priority('low'),
    dedupe_key => 'embeddings.reembed', source => 'manual', created_by => p_actor)
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
where j.kind = 'embeddings.embed';

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

-- Rules with the vector that serves searches: that of the current text, or of the previous one.
create or replace view embeddings.embedded_rules with (security_invoker = true) as
select r.*, v.text_hash as embedded_hash, v.embedding, v.model as embedding_model
from embeddings.rules as r
cross join embeddings.models as m
cross join lateral (
  select v.text_hash, v.embedding, v.model from embeddings.vectors as v
  where v.tenant_id = r.tenant_id and v.model = m.active and v.text_hash in (r.text_hash, r.previous_hash)
  order by v.text_hash = r.text_hash desc
  limit 1) as v;

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
grant select, insert, update, delete on embeddings.vectors, embeddings.models, embeddings.leases to posthouse_engine;
grant select on embeddings.models to posthouse_tenant;
grant select on embeddings.vectors, embeddings.embedded_rules, embeddings.embedding_jobs, embeddings.queue_health, embeddings.worker_performance,
  embeddings.embedding_job_failures to posthouse_engine, posthouse_tenant;
grant execute on function embeddings.text_of, embeddings.request_by_id, embeddings.nearest, embeddings.rules_of, embeddings.is_embedded to posthouse_engine, posthouse_tenant;
grant execute on function embeddings.take_texts, embeddings.job_of, embeddings.request, embeddings.urgency_of, embeddings.is_held,
  embeddings.request_reembedding, embeddings.is_referenced, embeddings.sweep_vectors, embeddings.index_vectors
  to posthouse_engine;
