-- The files of a job, by name; one of them if a name is given.
select a.name, a.size, a.content_type, encode(a.sha256, 'hex') as sha256, a.created_at, a.generation, a.attempt, a.place
from posthouse.artifacts as a
where a.job_id = %(id)s and (%(tenant)s::text is null or a.tenant_id = %(tenant)s::text)
  and (%(name)s::text is null or a.name = %(name)s::text)
order by a.name
