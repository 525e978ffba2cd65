-- Gives jobs that were enqueued before their kind had a definition what the definition says; returns how many.
select posthouse.adopt_jobs()
