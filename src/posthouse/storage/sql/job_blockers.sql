-- The jobs that a waiting job waits for. No status: it was dropped with its partition.
select distinct b.depends_on as id, j.kind, j.status
from posthouse.blocks as b
left join posthouse.jobs as j on j.id = b.depends_on
where b.job_id = %(id)s
order by b.depends_on
limit 100
