-- How far a page of all jobs has looked, if that is not to the end.
select id from posthouse.jobs
where id >= %(lowest)s::uuid and id < %(below)s::uuid
order by id desc
offset %(most)s::bigint - 1
limit 1
