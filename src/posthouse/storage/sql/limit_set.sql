-- Makes or changes a limit: fields that are not given stay as they are.
select to_jsonb(l) from posthouse.set_limit(%(name)s, %(fields)s::jsonb, %(actor)s) as l
