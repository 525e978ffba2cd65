-- Whether a job runs.
select 1 from posthouse.running where id = %s
