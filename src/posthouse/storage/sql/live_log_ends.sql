-- The number of the last log line of each job.
select j.id, (select max(l.sequence) from posthouse.log_lines as l where l.job_id = j.id) as sequence
from unnest(%(ids)s::uuid[]) as j (id)
