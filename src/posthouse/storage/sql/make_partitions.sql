-- Creates future partitions; returns how many were missing.
select posthouse.make_partitions()
