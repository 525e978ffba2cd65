-- The ids of all jobs of a video.
select j.id from posthouse.jobs as j where j.tenant_id = %(team)s and j.subject = %(video)s::text
