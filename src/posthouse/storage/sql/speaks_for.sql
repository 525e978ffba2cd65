-- The tenant that this transaction speaks for.
select posthouse.tenant()
