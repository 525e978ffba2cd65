-- Completed and failed jobs per worker.
select * from embeddings.worker_performance
