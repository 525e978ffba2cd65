-- Deletes empty lanes if there are many.
select posthouse.tidy_lanes()
