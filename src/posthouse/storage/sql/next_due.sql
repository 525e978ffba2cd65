-- Seconds until the next waiting job is due.
select posthouse.next_due()
