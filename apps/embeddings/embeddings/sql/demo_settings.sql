-- For the rest of the session: correlation id of the jobs.
select set_config('embeddings.import', %(import)s, false)
