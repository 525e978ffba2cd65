-- Re-inserts lanes that have ready jobs but were deleted concurrently.
select posthouse.mend_lanes()
