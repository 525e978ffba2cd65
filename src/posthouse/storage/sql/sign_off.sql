-- The worker leaves.
select posthouse.sign_off(%s)
