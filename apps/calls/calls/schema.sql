-- Calls, their files and their figures.
--
-- An organisation is a tenant. The status of a call is not stored but derived from its jobs, so they cannot disagree. Rows
-- are inserted in the transactions that complete stages, once each, even if a stage runs twice.

create schema if not exists calls;

create table if not exists calls.calls (
  id uuid primary key,
  org_id text not null,
  title text not null,
  duration double precision,
  channels integer,
  created_by text,
  created_at timestamptz not null default posthouse.now()
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
  analysed_at timestamptz not null default posthouse.now()
);

-- The jobs with the columns of a classic processing-jobs table.
drop view if exists calls.processing_jobs;
create view calls.processing_jobs with (security_invoker = true) as
select
  j.id, j.tenant_id as org_id, (j.payload ->> 'call_id')::uuid as call_id, split_part(j.kind, '.', 2) as stage,
  case j.status when 'queued' then 'queued' when 'running' then 'processing' when 'succeeded' then 'done' else 'failed'
  end as status,
  j.payload, j.attempt_count as attempts, j.max_attempts, j.scheduled_for as available_at,
  case when j.status = 'running' then j.attempt_started_at end as locked_at,
  case when j.status = 'running' then j.worker_id::text end as locked_by,
  j.last_error, j.queued_at as created_at,
  coalesce(j.finished_at, j.attempt_started_at, j.started_at, j.queued_at) as updated_at,
  j.subject  -- indexed
from posthouse.jobs as j
where j.kind in ('calls.extract_audio', 'calls.transcribe_start', 'calls.transcribe_poll', 'calls.analyze');

do $$
declare
  v_table text;
begin
  foreach v_table in array '{calls,artifacts,analyses}'::text[] loop
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
