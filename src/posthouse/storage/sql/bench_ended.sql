-- How many jobs have ended.
select count(*) from posthouse.history
