-- Ended jobs by status.
select status, count(*) from posthouse.history group by status
