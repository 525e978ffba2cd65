-- Reports progress; false if the lease is lost.
select posthouse.progress(%s, %s, make_interval(secs => %s), %s::real, %s::text, %s::text)
