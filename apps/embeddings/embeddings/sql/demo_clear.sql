-- Delete the rules of the previous demo, with their vectors and the texts of their jobs.
delete from embeddings.rules where tenant_id = %(tenant)s
