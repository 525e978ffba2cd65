-- An artifact of a running job, or of another job of its tenant, by the job's token.
select a.name, a.size, a.content_type, encode(a.sha256, 'hex') as sha256, a.place
from posthouse.running as r
left join posthouse.artifacts as a
  on a.job_id = coalesce(%(of)s::uuid, r.id) and a.name = %(name)s and a.tenant_id = r.tenant_id
where r.id = %(id)s and r.token = %(token)s
