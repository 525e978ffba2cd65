-- Videos, and views of the state of their jobs.
--
-- The status of a video (pending, processing, ready, failed) is derived from its jobs in the same snapshot and never
-- stored, so they cannot disagree. Only the current output is stored, because it outlives the jobs; it is set in the
-- transaction that completes vlog.publish.

create schema if not exists vlog;

create table if not exists vlog.uploads (
  id bigint generated always as identity primary key,
  tenant_id text not null default coalesce(posthouse.tenant(), 'default'),
  slug text not null unique,
  title text not null,
  source text,                           -- file name in the uploads folder
  job_id uuid,                           -- newest vlog.transcode, and the vlog.publish that depends on it
  publish_id uuid,
  retranscode_metadata jsonb,            -- what to delete when the output of the newest job is published
  version uuid,                          -- current output: the id of its vlog.transcode
  duration double precision,
  width integer,
  height integer,
  has_thumbnail boolean not null default false,
  created_at timestamptz not null default posthouse.now(),
  published_at timestamptz,
  deleted_at timestamptz
);
create index if not exists uploads_tenant on vlog.uploads (tenant_id, id);
create index if not exists uploads_unfinished on vlog.uploads (id)
  where version is distinct from job_id and deleted_at is null;  -- of the list of videos in progress

create table if not exists vlog.video_qualities (
  video_id bigint not null references vlog.uploads on delete cascade,
  tenant_id text not null,
  quality text not null,
  width integer not null,
  height integer not null,
  bitrate integer not null,              -- measured: average, and of the largest segment
  peak_bitrate integer not null,
  codecs text not null,
  segments integer not null,
  primary key (video_id, quality)
);

-- Uploads in parts. How much has arrived is the size of the file.
create table if not exists vlog.partial_uploads (
  id uuid primary key default gen_random_uuid(),
  tenant_id text not null default coalesce(posthouse.tenant(), 'default'),
  title text not null,
  suffix text not null,
  size bigint not null,
  video_id bigint,                       -- when finished
  changed_at timestamptz not null default posthouse.now()
);

create table if not exists vlog.transcriptions (
  video_id bigint primary key references vlog.uploads on delete cascade,
  tenant_id text not null default coalesce(posthouse.tenant(), 'default'),
  content text not null
);

-- An error without the Python class that precedes its message.
create or replace function vlog.message(p_error text) returns text language sql immutable parallel safe as $$
  select regexp_replace(p_error, '^(\w+\.)*[A-Z]\w*: ', '')
$$;

drop view if exists vlog.transcoding_jobs;
create view vlog.transcoding_jobs with (security_invoker = true) as
select
  j.id as job_id, u.id as video_id, u.tenant_id, j.status,
  case when j.status = 'running' then j.attempt_started_at end as claimed_at,
  j.lease_expires_at as claim_expires_at,
  case when j.status = 'running' then j.worker_id end as worker_id,
  case when j.status = 'succeeded' then j.finished_at end as completed_at,
  j.attempt_count as attempt_number, j.max_attempts, j.last_error, j.current_step, j.progress_percent, j.started_at,
  -- Of the last report; before the first one of an attempt, that of the attempts before.
  coalesce(r.progress_at, j.finished_at, (select max(p.updated_at) from posthouse.parts as p where p.job_id = j.id))
    as last_checkpoint,
  j.worker_id as processed_by_worker_id, w.name as processed_by_worker_name, u.retranscode_metadata
from vlog.uploads as u
join posthouse.jobs as j on j.id = u.job_id
left join posthouse.running as r on r.id = u.job_id
left join posthouse.visible_workers() as w on w.id = j.worker_id;

drop view if exists vlog.quality_progress;
create view vlog.quality_progress with (security_invoker = true) as
select
  p.job_id, u.id as video_id, u.tenant_id, p.ordinal, p.name as quality, p.status, p.total as segments_total,
  p.done as segments_completed, p.percent as progress_percent, p.started_at, p.finished_at as completed_at,
  vlog.message(p.error) as error_message, p.attempt
from vlog.uploads as u join posthouse.parts as p on p.job_id = u.job_id;

drop view if exists vlog.videos;
create view vlog.videos with (security_invoker = true) as
select
  u.id, u.tenant_id, u.slug, u.title,
  case
    when u.version = u.job_id then 'ready'
    when t.status is null or 'failed' in (t.ended, p.ended) then 'failed'
    when t.status = 'queued' and t.started_at is null and u.version is not null then 'ready'  -- transcoding again
    when t.status = 'queued' then 'pending'
    else 'processing'
  end as status,
  case when u.version is distinct from u.job_id then
    case when t.status is null then 'the job of the video was deleted by retention' else vlog.message(coalesce(p.last_error, t.last_error)) end
  end as error_message,
  u.version, u.duration, u.width, u.height, u.has_thumbnail, u.created_at, u.published_at, u.deleted_at, u.job_id, u.publish_id,
  u.retranscode_metadata, t.progress_percent, t.current_step
from vlog.uploads as u
left join lateral (
  select j.*, case when j.status in ('failed', 'dead_letter', 'canceled') then 'failed' end as ended
  from posthouse.jobs as j where j.id = u.job_id) as t on true
left join lateral (
  select j.*, case when j.status in ('failed', 'dead_letter', 'canceled') then 'failed' end as ended
  from posthouse.jobs as j where j.id = u.publish_id) as p on true
where u.deleted_at is null;

-- Tenants see and write their own rows, workers all rows.
do $$
declare
  v_table text;
begin
  foreach v_table in array '{uploads,partial_uploads,video_qualities,transcriptions}'::text[] loop
    execute format('alter table vlog.%I enable row level security', v_table);
    execute format('drop policy if exists tenant on vlog.%I', v_table);
    execute format('create policy tenant on vlog.%I to posthouse_tenant '
      'using (tenant_id = posthouse.tenant()) with check (tenant_id = posthouse.tenant())', v_table);
    execute format('drop policy if exists engine on vlog.%I', v_table);
    execute format('create policy engine on vlog.%I to posthouse_engine using (true)', v_table);
  end loop;
end $$;
grant usage on schema vlog to posthouse_tenant, posthouse_engine;
grant select, insert, update, delete on all tables in schema vlog to posthouse_engine;
grant select on all tables in schema vlog to posthouse_tenant;
grant insert, update on vlog.uploads, vlog.partial_uploads, vlog.transcriptions to posthouse_tenant;
grant delete on vlog.partial_uploads to posthouse_tenant;
