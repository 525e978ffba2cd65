-- Takes a partition out of its table; false if it could not be locked, null if it is not there.
select posthouse.detach_partition(%(name)s)
