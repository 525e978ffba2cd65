-- One of these jobs that does not belong to a tenant.
select u.id from unnest(%(ids)s::uuid[]) as u (id)
where not exists (select from posthouse.jobs as j where j.id = u.id and j.tenant_id = %(tenant)s)
limit 1
