-- How the queue is.
select * from embeddings.queue_health
