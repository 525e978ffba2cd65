-- What each worker did.
select * from embeddings.worker_performance
