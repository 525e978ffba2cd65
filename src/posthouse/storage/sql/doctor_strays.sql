-- Rows that found no partition of their own, counted up to a limit.
select * from posthouse.strays(%(limit)s)
