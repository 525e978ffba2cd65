-- For the rest of the transaction: correlation id of the jobs, and whether each rule is embedded on its own.
select set_config('embeddings.import', %(import)s, true), set_config('embeddings.singly', %(singly)s, true)
