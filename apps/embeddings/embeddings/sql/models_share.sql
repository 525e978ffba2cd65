-- The active model; it cannot change until the end of the transaction.
select active from embeddings.models for share
