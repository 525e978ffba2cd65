-- Whether a job has finished.
select 1 from posthouse.history where id = %s
