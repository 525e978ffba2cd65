-- Drops partitions past their keep; returns their names.
select posthouse.drop_partitions(posthouse.now() - make_interval(secs => %s * 86400))
