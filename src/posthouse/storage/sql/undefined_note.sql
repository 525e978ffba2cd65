-- Notes copied jobs of a kind without a definition: they take these options from it when it arrives.
insert into posthouse.undefined_jobs (kind, took, job_id) select %s, %s::text[], unnest(%s::uuid[])
