-- Moves staged jobs into ready, in the order in which they were stored.
insert into posthouse.ready (@plain@)
select @plain@ from pg_temp.posthouse_staged order by ctid
