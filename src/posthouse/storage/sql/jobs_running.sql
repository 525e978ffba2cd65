-- The jobs that have been running longest. All columns of a list, so that they read as jobs of a list do.
select @listed@
from posthouse.jobs
where id = any (array(select id from posthouse.running order by attempt_started_at, id limit %(limit)s))
  and status = 'running'
order by attempt_started_at, id
