-- Detaches a partition; false if the table is locked, null if the partition does not exist.
select posthouse.detach_partition(%(name)s)
