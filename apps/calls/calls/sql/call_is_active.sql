-- Whether a job of a call is queued or running.
select exists (
  select from posthouse.jobs as j
  where j.tenant_id = %(org)s and j.subject = %(call)s::text and j.status in ('queued', 'running'))
