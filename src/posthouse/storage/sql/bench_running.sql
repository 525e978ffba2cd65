-- Whether a job is running.
select 1 from posthouse.running where id = %s
