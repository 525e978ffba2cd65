-- Take leases on texts without a vector; return the state of each request.
select * from embeddings.take_texts(%(tenants)s, %(models)s, %(hashes)s, %(rules)s, %(jobs)s, %(tokens)s, %(lease)s)
