-- Calls that ended without figures some days ago and whose uploads are still stored.
select c.id from calls.calls as c
left join lateral (
  select max(j.finished_at) as finished_at, coalesce(bool_or(j.status in ('queued', 'running')), false) as is_active
  from posthouse.jobs as j where j.tenant_id = c.org_id and j.subject = c.id::text) as j on true
where c.upload_deleted_at is null and not j.is_active
  and not exists (select from calls.analyses as a where a.call_id = c.id)
  and coalesce(j.finished_at, c.created_at) < posthouse.now() - make_interval(secs => 86400 * %(days)s::double precision)
