-- Samples the minutes that are over; returns how many.
select posthouse.sample_due()
