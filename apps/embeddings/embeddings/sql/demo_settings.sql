-- For the rest of the transaction: correlation id of the jobs.
select set_config('embeddings.import', %(import)s, true)
