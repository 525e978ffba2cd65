-- The last job read for a page of all jobs, if the search stopped early.
select id from posthouse.jobs
where id >= %(lowest)s::uuid and id < %(below)s::uuid
order by id desc
offset %(most)s::bigint - 1
limit 1
