-- Rows in default partitions, counted up to a limit.
select * from posthouse.strays(%(limit)s)
