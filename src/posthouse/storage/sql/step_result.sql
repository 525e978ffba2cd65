-- The result of a finished step.
select result::text from posthouse.steps where job_id = %s and name = %s
