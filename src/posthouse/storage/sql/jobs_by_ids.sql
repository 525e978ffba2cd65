-- These jobs, newest first.
select @listed@
from posthouse.jobs
where id = any (%(ids)s::uuid[])
order by id desc
