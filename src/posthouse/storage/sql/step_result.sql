-- What a finished step gave back.
select result::text from posthouse.steps where job_id = %s and name = %s
