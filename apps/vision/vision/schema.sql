-- Videos, the texts found in them, and the entities in those texts.
--
-- A team is a tenant of Posthouse. Each table has a team_id and row-level security: requests run as posthouse_tenant and
-- see the rows of their team, workers run as posthouse_engine and see all. Materialized views do not support row-level
-- security, so no role is granted vision.search_materialized; the view vision.search filters it by team.

create schema if not exists vision;

create table if not exists vision.videos (
  id uuid primary key,
  team_id text not null,
  owner_id text not null,
  title text not null default '',
  s3_original_path text not null,
  s3_proxy_path text,
  s3_thumb_path text,
  status text not null default 'uploading' check (status in ('uploading', 'processing', 'ready')),
  duration_ms integer check (duration_ms >= 0),
  width integer,
  height integer,
  options jsonb not null default '{}',
  created_at timestamptz not null default now(),
  ready_at timestamptz,
  check ((status = 'ready') = (ready_at is not null))
);
create index if not exists videos_by_team on vision.videos (team_id, created_at desc);

-- One row per text region of each frame, until segment_index merges consecutive ones with the same text.
create table if not exists vision.segments (
  id bigint generated always as identity primary key,
  video_id uuid not null references vision.videos (id) on delete cascade,
  team_id text not null,
  owner_id text not null,
  t_start integer not null,
  t_end integer not null,
  text text not null,
  normalized_text text not null,
  text_hash text not null,
  confidence real not null check (confidence between 0 and 1),
  bounding_box jsonb not null,
  language text not null,
  check (t_start between 0 and t_end)
);
create index if not exists segments_by_video on vision.segments (video_id, t_start);

create table if not exists vision.entities (
  id bigint generated always as identity primary key,
  segment_id bigint not null references vision.segments (id) on delete cascade,
  team_id text not null,
  entity_type text not null check (entity_type in ('mention', 'hashtag', 'url', 'emoji', 'number')),
  value text not null,
  normalized_value text not null
);
create index if not exists entities_by_segment on vision.entities (segment_id);

create table if not exists vision.clips (
  video_id uuid not null references vision.videos (id) on delete cascade,
  clip_id text not null,
  team_id text not null,
  t_start integer not null,
  t_end integer not null,
  padding_ms integer not null,
  s3_path text,
  created_at timestamptz not null default now(),
  primary key (video_id, clip_id),
  check (t_start between 0 and t_end and padding_ms >= 0)
);

-- The words of a text, for the index and for queries. Splits at ASCII punctuation only, because character classes
-- depend on the locale of the database.
create or replace function vision.words(p_text text) returns text[]
language sql immutable parallel safe as $$
  select array_remove(regexp_split_to_array(lower(p_text), '[\s!-/:-@\[-`{-~]+'), '')
$$;

create materialized view if not exists vision.search_materialized as
select s.id as segment_id, s.video_id, s.team_id, v.title, s.t_start, s.t_end, s.text, s.confidence, s.bounding_box,
  s.language, array_to_tsvector(vision.words(s.text)) as words,
  coalesce(e.terms, '{}') as terms
from vision.segments as s
join vision.videos as v on v.id = s.video_id
left join lateral (
  select array_agg(distinct e.entity_type || ':' || e.normalized_value) as terms
  from vision.entities as e where e.segment_id = s.id) as e on true
where v.status = 'ready';

-- The unique index allows a concurrent refresh.
create unique index if not exists search_by_segment on vision.search_materialized (segment_id);
create index if not exists search_by_words on vision.search_materialized using gin (words);
create index if not exists search_by_terms on vision.search_materialized using gin (terms);

-- Refreshes run one at a time. The lock is taken first, in its own statement: a refresh that waits with an older snapshot
-- would lose the rows of the refresh it waited for.
create or replace function vision.refresh_search_materialized() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(hashtext('vision.search_materialized'));
  refresh materialized view concurrently vision.search_materialized;
end $$;
revoke all on function vision.refresh_search_materialized() from public;

create or replace view vision.search with (security_barrier) as
select * from vision.search_materialized
where team_id = posthouse.tenant() or (posthouse.tenant() is null and current_user <> 'posthouse_tenant');

-- Marks an uploaded video of the caller's team as processing. False: its processing has started already. Requests have no
-- right to change the status of a video.
create or replace function vision.start_processing(p_video uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update vision.videos set status = 'processing'
  where id = p_video and status = 'uploading' and team_id = posthouse.tenant();
  return found;
end $$;
revoke all on function vision.start_processing(uuid) from public;

-- The jobs of the pipeline in the words of its contract. The payload of a failed job has the error, and the original
-- payload beside it. retry_count: the number of attempts after the first, and of those that are due.
drop view if exists vision.jobs;
create view vision.jobs with (security_invoker = true) as
select j.id, j.payload ->> 'video_id' as video_id, j.tenant_id as team_id, t.job_type, t.status,
  case when t.status = 'failed' then
    jsonb_build_object('error', jsonb_build_object(
      'type', coalesce(regexp_replace(j.error ->> 'type', '^.*\.', ''), initcap(j.status)),
      'message', coalesce(j.error ->> 'message', j.last_error, 'the job was canceled'),
      'timestamp', to_char(j.finished_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
      'retry_count', t.retry_count), 'original_payload', j.payload)
  else j.payload end as payload,
  t.retry_count, j.max_attempts - 1 as max_retries, j.priority, j.depends_on, j.worker_id as locked_by,
  j.lease_expires_at as locked_until, j.queued_at as created_at, j.started_at, j.finished_at, j.subject
from posthouse.jobs as j
cross join lateral (
  select substr(j.kind, length('vision.') + 1) as job_type,
    case j.status when 'queued' then 'queued' when 'running' then 'processing' when 'succeeded' then 'done' else 'failed' end
      as status,
    case j.status when 'queued' then j.attempt_count else greatest(j.attempt_count - 1, 0) end as retry_count) as t
where j.kind in ('vision.transcode', 'vision.sample', 'vision.ocr', 'vision.segment_index', 'vision.clip_generate');

do $$
declare
  v_table text;
begin
  foreach v_table in array '{videos,segments,entities,clips}'::text[] loop
    execute format('alter table vision.%I enable row level security', v_table);
    execute format('drop policy if exists engine on vision.%I', v_table);
    execute format('drop policy if exists team on vision.%I', v_table);
    execute format('create policy engine on vision.%I to posthouse_engine using (true)', v_table);
    execute format('create policy team on vision.%I to posthouse_tenant using (team_id = posthouse.tenant())', v_table);
  end loop;
end $$;

grant usage on schema vision to posthouse_engine, posthouse_tenant;
grant select, insert, update, delete on all tables in schema vision to posthouse_engine;
grant execute on function vision.refresh_search_materialized() to posthouse_engine;
grant select on vision.videos, vision.segments, vision.entities, vision.clips, vision.search, vision.jobs
  to posthouse_tenant;
grant execute on function vision.start_processing(uuid) to posthouse_tenant;
grant insert on vision.videos, vision.clips to posthouse_tenant;
grant update (options) on vision.videos to posthouse_tenant;
revoke all on vision.search_materialized from posthouse_tenant;
