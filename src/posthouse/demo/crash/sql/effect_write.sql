-- One effect of one job.
insert into crash_effects (number) values (%(number)s);
