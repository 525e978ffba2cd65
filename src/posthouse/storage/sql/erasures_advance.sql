-- Continues the erasures that are under way; returns how many there were, and the jobs that were erased.
select under_way, erased from posthouse.advance_erasures(%s)
