-- Lock a video before changing it.
select u.id, u.slug, u.source, u.version::text, u.job_id, u.publish_id
from vlog.uploads as u where u.id = %(id)s and u.deleted_at is null
for update
