-- Number of jobs per status and priority.
select * from embeddings.queue_health
