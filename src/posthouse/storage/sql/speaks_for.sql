-- The tenant of this transaction.
select posthouse.tenant()
