-- Whether a job has ended.
select 1 from posthouse.history where id = %s
