-- How many ended jobs a bulk retry with this choice would retry now; counted up to a number.
select count(*) from (select from posthouse.chosen_jobs(%(chosen)s::jsonb, posthouse.now()) limit %(most)s) as c
