-- The key that a worker came with. The row stays until the transaction ends.
select key from posthouse.workers where id = %(id)s for key share
