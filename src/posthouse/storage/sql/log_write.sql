-- Stores log lines of running jobs.
select posthouse.write_log(%s::uuid[], %s::uuid[], %s::float8[], %s::text[], %s::text[], %s::text[])
