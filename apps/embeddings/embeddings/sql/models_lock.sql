-- Lock the models until the end of the transaction.
select from embeddings.models for update
