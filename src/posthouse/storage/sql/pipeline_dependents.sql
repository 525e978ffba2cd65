-- Jobs that depend on a job.
select job_id as id from posthouse.blocks where depends_on = %(id)s and not line order by job_id limit %(most)s
