-- Samples the minutes that are over: how many.
select posthouse.sample_due()
