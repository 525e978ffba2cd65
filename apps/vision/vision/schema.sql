-- Videos, the texts found in them, and the entities in those texts.
--
-- A team is a tenant of Posthouse. Each table has a team_id and row-level security: requests run as posthouse_tenant and
-- see the rows of their team, workers run as posthouse_engine and see all. Row-level security would prevent the use of the
-- search index, because its operators are not leakproof: requests search with vision.find_segments, which adds the team to
-- each query.

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
  warning text,                          -- why the video is not complete, for example because the file ends early
  indexed_at timestamptz,                -- when its segments were added to the search index; null: they are not there
  created_at timestamptz not null default now(),
  ready_at timestamptz,
  check ((status = 'ready') = (ready_at is not null))
);
create index if not exists videos_by_team on vision.videos (team_id, created_at desc);
create index if not exists videos_to_index on vision.videos (id) where status = 'ready' and indexed_at is null;

-- Deleted videos whose files may still be written by a job that has not yet noticed its cancellation. The scanner ignores
-- their originals; vision.sweep removes the row when the files are gone.
create table if not exists vision.deleted_videos (
  id uuid primary key,
  team_id text not null,
  deleted_at timestamptz not null default now()
);

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

-- The search index: a row per segment of a ready video. It is a table, so that each video is added and removed alone; a
-- materialized view would be computed anew for all videos. Words, entities, punctuation, team and video are lexemes of one
-- tsvector, so that one GIN index finds their intersection. Lexemes that are not words begin with =, as no word does.
create table if not exists vision.search_materialized (
  segment_id bigint primary key references vision.segments (id) on delete cascade,
  video_id uuid not null,
  team_id text not null,
  terms text[] not null,
  lexemes tsvector not null
);
create index if not exists search_by_lexemes on vision.search_materialized using gin (lexemes);
create index if not exists search_by_video on vision.search_materialized (video_id);

create or replace function vision.symbols(p_text text) returns text[]
language sql immutable parallel safe as $$
  select coalesce(array_agg(distinct '=symbol:' || s.found[1]), '{}')
  from regexp_matches(p_text, '[!-/:-@\[-`{-~]', 'g') as s (found)
$$;

-- Adds the segments of ready videos that are not in the index, of one video or of all. Concurrent calls wait for each other
-- only if they add the same video.
create or replace function vision.refresh_search_materialized(p_video uuid default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_videos uuid[];
begin
  select array_agg(v.id) into v_videos from (
    select v.id from vision.videos as v
    where v.status = 'ready' and v.indexed_at is null and (p_video is null or v.id = p_video)
    order by v.id for update) as v;
  delete from vision.search_materialized where video_id = any (v_videos);
  insert into vision.search_materialized (segment_id, video_id, team_id, terms, lexemes)
  select s.id, s.video_id, s.team_id, e.terms, array_to_tsvector(
    array(select left(w, 400) from unnest(vision.words(s.text)) as w) || array(select left('=' || t, 400) from unnest(e.terms) as t)
    || vision.symbols(s.text) || ('=team:' || left(s.team_id, 400)) || ('=video:' || s.video_id))
  from vision.segments as s
  cross join lateral (
    select coalesce(array_agg(distinct e.entity_type || ':' || e.normalized_value), '{}') as terms
    from vision.entities as e where e.segment_id = s.id) as e
  where s.video_id = any (v_videos);
  update vision.videos set indexed_at = now() where id = any (v_videos);
end $$;
revoke all on function vision.refresh_search_materialized(uuid) from public;

-- A lexeme as part of a tsquery.
create or replace function vision.quoted(p_lexeme text) returns text
language sql immutable parallel safe as $$
  select '''' || replace(replace(left(p_lexeme, 400), '\', '\\'), '''', '''''') || ''''
$$;

-- The query for all words (or prefixes) and all entities; for a text of punctuation only, its characters. Null: nothing to
-- find.
create or replace function vision.search_query(p_text text, p_terms text[], p_team text, p_video uuid) returns tsquery
language sql immutable parallel safe as $$
  select (string_agg(p.part, ' & ') || coalesce(' & ' || vision.quoted('=team:' || p_team), '')
    || coalesce(' & ' || vision.quoted('=video:' || p_video), ''))::tsquery
  from (
    select vision.quoted(w) || ':*' from unnest(vision.words(p_text)) as w
    union all select vision.quoted('=' || t) from unnest(p_terms) as t
    union all select vision.quoted(s) from unnest(vision.symbols(p_text)) as s
      where vision.words(p_text) = '{}' and p_terms = '{}') as p (part)
$$;

-- Segments that match, best first, of the caller's team; callers without a tenant may name any team or none. At most 1,000
-- matches are ranked, so that a frequent word costs no more than a rare one.
create or replace function vision.find_segments(
  p_text text, p_terms text[], p_team text, p_video uuid, p_limit integer, p_offset integer)
returns table (
  segment_id bigint, video_id uuid, title text, t_start integer, t_end integer, text text, confidence real, bounding_box jsonb,
  language text, terms text[])
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set plan_cache_mode = force_custom_plan as $$
declare
  v_query tsquery := vision.search_query(p_text, p_terms, coalesce(posthouse.tenant(), p_team), p_video);
  v_symbols text := case when vision.words(p_text) = '{}' and p_terms = '{}' then btrim(p_text) end;
begin
  if current_setting('role') = 'posthouse_tenant' and posthouse.tenant() is null then
    return;
  end if;
  return query
  with matches as materialized (
    select m.segment_id, m.terms from vision.search_materialized as m where m.lexemes @@ v_query limit 1000
  )
  select s.id, s.video_id, v.title, s.t_start, s.t_end, s.text, s.confidence, s.bounding_box, s.language, m.terms
  from matches as m
  join vision.segments as s on s.id = m.segment_id
  join vision.videos as v on v.id = s.video_id
  where v.status = 'ready' and (v_symbols is null or position(v_symbols in s.text) > 0)
  order by s.confidence desc, s.video_id, s.t_start, s.id
  limit p_limit offset p_offset;
end $$;
revoke all on function vision.find_segments(text, text[], text, uuid, integer, integer) from public;

-- Marks a video of the caller's team as processing, if it has the expected status. False: it has another one, because its
-- processing has started already. Requests have no right to change the status of a video.
create or replace function vision.start_processing(p_video uuid, p_from text default 'uploading') returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update vision.videos set status = 'processing', ready_at = null, indexed_at = null, warning = null
  where id = p_video and status = p_from and team_id = posthouse.tenant();
  if not found then
    return false;
  end if;
  delete from vision.clips where video_id = p_video;  -- of an earlier original
  return true;
end $$;
revoke all on function vision.start_processing(uuid, text) from public;

-- Deletes a video of the caller's team with its texts and clips. False: there is none.
create or replace function vision.delete_video(p_video uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from vision.videos where id = p_video and team_id = posthouse.tenant();
  if not found then
    return false;
  end if;
  insert into vision.deleted_videos (id, team_id) values (p_video, posthouse.tenant()) on conflict do nothing;
  return true;
end $$;
revoke all on function vision.delete_video(uuid) from public;

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
  foreach v_table in array '{videos,deleted_videos,segments,entities,clips,search_materialized}'::text[] loop
    execute format('alter table vision.%I enable row level security', v_table);
    execute format('drop policy if exists engine on vision.%I', v_table);
    execute format('drop policy if exists team on vision.%I', v_table);
    execute format('create policy engine on vision.%I to posthouse_engine using (true)', v_table);
    execute format('create policy team on vision.%I to posthouse_tenant using (team_id = posthouse.tenant())', v_table);
  end loop;
end $$;

grant usage on schema vision to posthouse_engine, posthouse_tenant;
grant select, insert, update, delete on all tables in schema vision to posthouse_engine;
grant execute on function vision.refresh_search_materialized(uuid) to posthouse_engine;
grant execute on function vision.find_segments(text, text[], text, uuid, integer, integer) to posthouse_engine, posthouse_tenant;
grant execute on function vision.start_processing(uuid, text), vision.delete_video(uuid) to posthouse_tenant;
grant select on vision.videos, vision.segments, vision.entities, vision.clips, vision.jobs to posthouse_tenant;
grant insert on vision.videos, vision.clips to posthouse_tenant;
grant update (options) on vision.videos to posthouse_tenant;
