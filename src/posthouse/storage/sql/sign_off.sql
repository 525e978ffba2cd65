-- Deregisters a worker.
select posthouse.sign_off(%s)
