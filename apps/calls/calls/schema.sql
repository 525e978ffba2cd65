-- Calls, their files, their figures and the phrases said in them.
--
-- An organisation is a tenant. The status of a call is not stored but derived from its jobs, so they cannot disagree. Rows
-- are inserted in the transactions that complete stages, once each, even if a stage runs twice. Row-level security would
-- prevent the use of the search index, because its operators are not leakproof: requests search with calls.find_phrases,
-- which adds the organisation to each query.

create schema if not exists calls;

create table if not exists calls.calls (
  id uuid primary key,
  org_id text not null,
  title text not null,
  duration double precision,
  channels integer,
  created_by text,
  created_at timestamptz not null default posthouse.now(),
  upload_deleted_at timestamptz          -- when the upload of a failed call was deleted, after CALLS_FAILED_DAYS
);
create index if not exists calls_of_org on calls.calls (org_id, created_at desc);

create table if not exists calls.artifacts (
  call_id uuid not null references calls.calls on delete cascade,
  org_id text not null,
  kind text not null check (kind in ('audio', 'transcript')),
  path text not null,
  created_at timestamptz not null default posthouse.now(),
  primary key (call_id, kind)
);

create table if not exists calls.analyses (
  call_id uuid primary key references calls.calls on delete cascade,
  org_id text not null,
  figures jsonb not null,
  confidence double precision,           -- of the transcript; null: no words, or the recognizer does not report it
  is_low_confidence boolean not null,    -- below CALLS_MIN_CONFIDENCE at the time of the analysis
  analysed_at timestamptz not null default posthouse.now()
);

-- The words of a text, for the index and for queries. Splits at ASCII punctuation except apostrophes, because character
-- classes depend on the locale of the database.
create or replace function calls.words(p_text text) returns text[]
language sql immutable parallel safe as $$
  select array_remove(regexp_split_to_array(replace(lower(p_text), U&'\2019', ''''), '[\s!-&(-/:-@\[-`{-~]+'), '')
$$;

create table if not exists calls.phrases (
  call_id uuid not null references calls.calls on delete cascade,
  number integer not null,
  org_id text not null,
  speaker text not null,
  start_seconds double precision not null,
  end_seconds double precision not null,
  text text not null,
  words tsvector not null generated always as (array_to_tsvector(calls.words(text))) stored,
  primary key (call_id, number)
);
create index if not exists phrases_by_words on calls.phrases using gin (words);

-- The query for phrases that have all words of a text, or words that begin with them. Null: no words.
create or replace function calls.search_query(p_text text) returns tsquery
language sql immutable parallel safe as $$
  select string_agg('''' || replace(replace(left(w, 400), '\', '\\'), '''', '''''') || ''':*', ' & ')::tsquery
  from unnest(calls.words(p_text)) as w
$$;

-- Phrases that match, of the newest calls first, those that were recognized badly last; callers without a tenant may name
-- any organisation or none. At most 1,000 matches are sorted, so that a frequent word costs no more than a rare one.
create or replace function calls.find_phrases(p_text text, p_org text, p_call uuid, p_limit integer, p_offset integer)
returns table (
  call_id uuid, number integer, title text, is_low_confidence boolean, speaker text, start_seconds double precision,
  end_seconds double precision, text text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set plan_cache_mode = force_custom_plan as $$
declare
  v_query tsquery := calls.search_query(p_text);
  v_org text := coalesce(posthouse.tenant(), p_org);
begin
  if current_setting('role') = 'posthouse_tenant' and posthouse.tenant() is null then
    return;
  end if;
  return query
  with matches as materialized (
    select p.* from calls.phrases as p
    where p.words @@ v_query and (v_org is null or p.org_id = v_org) and (p_call is null or p.call_id = p_call)
    limit 1000
  )
  select m.call_id, m.number, c.title, a.is_low_confidence, m.speaker, m.start_seconds, m.end_seconds, m.text
  from matches as m
  join calls.calls as c on c.id = m.call_id
  join calls.analyses as a on a.call_id = m.call_id
  order by a.is_low_confidence, c.created_at desc, m.call_id, m.number
  limit p_limit offset p_offset;
end $$;
revoke all on function calls.find_phrases(text, text, uuid, integer, integer) from public;

-- Deletes a call of the caller's organisation with its rows in all tables. False: there is none.
create or replace function calls.delete_call(p_call uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from calls.calls where id = p_call and org_id = posthouse.tenant();
  return found;
end $$;
revoke all on function calls.delete_call(uuid) from public;

-- The jobs with the columns of a classic processing-jobs table. A poll that finds the operation unfinished spends no
-- attempt: polls is the number of all polls.
drop view if exists calls.processing_jobs;
create view calls.processing_jobs with (security_invoker = true) as
select
  j.id, j.tenant_id as org_id, (j.payload ->> 'call_id')::uuid as call_id, split_part(j.kind, '.', 2) as stage,
  case j.status when 'queued' then 'queued' when 'running' then 'processing' when 'succeeded' then 'done'
    when 'canceled' then 'canceled' else 'failed' end as status,
  j.payload, j.attempt_count as attempts, j.max_attempts, j.scheduled_for as available_at,
  case when j.status = 'running' then j.attempt_started_at end as locked_at,
  case when j.status = 'running' then j.worker_id::text end as locked_by,
  j.last_error, j.queued_at as created_at,
  coalesce(j.finished_at, j.attempt_started_at, j.started_at, j.queued_at) as updated_at,
  case when j.kind = 'calls.transcribe_poll' then j.snoozes + j.attempt_count end as polls,
  j.subject  -- indexed
from posthouse.jobs as j
where j.kind in ('calls.extract_audio', 'calls.transcribe_start', 'calls.transcribe_poll', 'calls.analyze');

do $$
declare
  v_table text;
begin
  foreach v_table in array '{calls,artifacts,analyses,phrases}'::text[] loop
    execute format('alter table calls.%I enable row level security', v_table);
    execute format('drop policy if exists engine on calls.%I', v_table);
    execute format('drop policy if exists org on calls.%I', v_table);
    execute format('create policy engine on calls.%I to posthouse_engine using (true)', v_table);
    execute format('create policy org on calls.%I to posthouse_tenant using (org_id = posthouse.tenant())', v_table);
  end loop;
end $$;

grant usage on schema calls to posthouse_engine, posthouse_tenant;
grant select, insert, update, delete on all tables in schema calls to posthouse_engine;
grant select on all tables in schema calls to posthouse_tenant;
grant insert on calls.calls to posthouse_tenant;
grant execute on function calls.find_phrases(text, text, uuid, integer, integer), calls.delete_call(uuid) to posthouse_tenant;
