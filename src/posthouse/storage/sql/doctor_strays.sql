-- Rows in default partitions, counted up to a limit.
select relation, strays from posthouse.strays(%(limit)s)
