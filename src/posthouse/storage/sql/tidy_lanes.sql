-- Forgets lanes where nobody stands, if there are many.
select posthouse.tidy_lanes()
