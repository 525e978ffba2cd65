-- Videos, the texts that were read in them, and what those texts mention.
--
-- A team is a tenant of Posthouse. Every table holds team_id and is under row-level security: requests come as
-- posthouse_tenant and see their team's rows, workers come as posthouse_engine and see all. A materialized view cannot
-- be guarded this way, so nobody is granted vision.search_materialized: the view vision.search shows a team its part.

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

-- One for each text region of each frame, until segment_index makes one of those that follow each other.
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

-- The words of a text, for the index and for a query alike. Split at ASCII punctuation only: what a letter is
-- depends on the database's locale, and this must not.
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

-- The first is what lets it be refreshed while it is read.
create unique index if not exists search_by_segment on vision.search_materialized (segment_id);
create index if not exists search_by_words on vision.search_materialized using gin (words);
create index if not exists search_by_terms on vision.search_materialized using gin (terms);

-- One refresh after the other. The lock comes first and on its own: a refresh that waited with its snapshot already
-- taken would put back a state without the rows of the one it waited for.
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
grant select on vision.videos, vision.segments, vision.entities, vision.clips, vision.search to posthouse_tenant;
grant insert on vision.videos, vision.clips to posthouse_tenant;
grant update (options) on vision.videos to posthouse_tenant;
revoke all on vision.search_materialized from posthouse_tenant;
