-- The demo's jobs by status.
select status, count(*) from posthouse.jobs where kind = 'crash.effect' group by status;
