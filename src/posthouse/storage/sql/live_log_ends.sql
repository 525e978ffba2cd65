-- How far the log of each job has come.
select j.id, (select max(l.sequence) from posthouse.log_lines as l where l.job_id = j.id) as sequence
from unnest(%(ids)s::uuid[]) as j (id)
