-- Creates the definition of a command. Audited.
select to_jsonb(d) from posthouse.create_definition(%(key)s, %(fields)s::jsonb, %(actor)s) as d
