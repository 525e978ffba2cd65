-- Insert originals found in the storage, and mark registered ones as processing. Those of deleted videos are left out.
insert into vision.videos as v (id, team_id, owner_id, s3_original_path, status)
select f.id, %(team)s, 'storage', f.path, 'processing'
from unnest(%(ids)s::uuid[], %(paths)s::text[]) as f (id, path)
where not exists (select from vision.deleted_videos as d where d.id = f.id)
on conflict (id) do update set status = 'processing'
  where v.status = 'uploading'
returning v.id, v.team_id
