-- Erasures, newest first; the one with this id, if one is given.
select id, tenant_id, subject, state, jobs, events, artifacts, requested_at, requested_by, ended_at
from posthouse.erasures
where (%(id)s::uuid is null or id = %(id)s::uuid)
  and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and (%(before)s::uuid is null or id < %(before)s::uuid)
order by id desc
limit %(limit)s
