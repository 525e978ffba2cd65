-- Stores lines that running jobs put out.
select posthouse.write_log(%s::uuid[], %s::uuid[], %s::float8[], %s::text[], %s::text[], %s::text[])
