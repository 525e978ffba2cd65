-- For the rest of the transaction: what the jobs of new rules belong to, and whether each is embedded alone.
select set_config('embeddings.import', %(import)s, true), set_config('embeddings.singly', %(singly)s, true)
