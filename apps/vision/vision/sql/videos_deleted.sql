-- Videos that were deleted, and whether none of their jobs is active.
select d.id, not exists (
  select from posthouse.jobs as j
  where j.tenant_id = d.team_id and j.subject = d.id::text and j.status in ('queued', 'running')) as is_idle
from vision.deleted_videos as d
