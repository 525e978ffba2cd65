-- Jobs by id, of each tenant the newest so many; `of_tenant` says how many there are. What ended long ago is left out:
-- it has not changed, and looking for it would mean looking into every partition.
select * from (
  select
    @listed@,
    count(*) over (partition by tenant_id) as of_tenant,
    row_number() over (partition by tenant_id order by id desc) as nth
  from posthouse.jobs
  where id = any (%(ids)s) and (finished_at is null or finished_at > coalesce(%(since)s::timestamptz, '-infinity'))
    and (%(tenants)s::text[] is null or tenant_id = any (%(tenants)s::text[]))) as found
where nth <= %(most)s
