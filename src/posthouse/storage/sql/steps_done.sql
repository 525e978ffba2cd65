-- The names of a job's finished steps, first to last.
select name from posthouse.steps where job_id = %s order by ordinal
