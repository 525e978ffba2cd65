-- When workers came and went, newest first.
select id, at, worker_id, name, change from posthouse.worker_changes
where (%(worker)s::uuid is null or worker_id = %(worker)s::uuid)
  and (%(after)s::bigint is null or id < %(after)s::bigint)
order by id desc
limit %(limit)s
