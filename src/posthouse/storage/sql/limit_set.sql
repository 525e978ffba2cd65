-- Creates or changes a limit; omitted fields are unchanged.
select to_jsonb(l) from posthouse.set_limit(%(name)s, %(fields)s::jsonb, %(actor)s) as l
